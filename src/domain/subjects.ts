// The subjects: one entry for each noun that has a table. The audit, the reconciler, notifications, events, timelines
// and idempotency keys read from here what they need to know of every noun.
import assert from 'node:assert/strict'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { CALLS, type CallingNoun } from '#jobs/index.ts'
import { aiTaskSubject } from './ai-tasks/subject.ts'
import { CUSTOMER_EVENTS, customerEventSchema } from './customers/customer.ts'
import { deliverySubject } from './deliveries/delivery.ts'
import { recoverySubject } from './deliveries/recovery.ts'
import { disputeSubject } from './disputes/subject.ts'
import { messageSubject } from './messages/subject.ts'
import { MERCHANT_EVENTS, merchantSchema } from './merchants/merchant.ts'
import { paymentSubject } from './payments/subject.ts'
import { payoutSubject } from './payouts/subject.ts'
import { RECIPIENT_EVENTS, recipientSchema } from './recipients/recipient.ts'
import { refundSubject } from './refunds/subject.ts'
import { suppressionSubject } from './suppressions/suppression.ts'
import type { ProviderSubject, Subject, UnderWay } from './subject.ts'
import { templateSubject } from './templates/template.ts'
import { topUpSubject } from './top-ups/subject.ts'
import { verificationSubject } from './verifications/subject.ts'
import { webhookEndpointSubject } from './webhook-endpoints/endpoint.ts'

export const SUBJECTS = {
  customer: { table: 'customers', view: customerEventSchema, events: CUSTOMER_EVENTS },
  recipient: { table: 'recipients', view: recipientSchema, events: RECIPIENT_EVENTS },
  merchant: { table: 'merchants', view: merchantSchema, events: MERCHANT_EVENTS },
  payment: paymentSubject,
  refund: refundSubject,
  dispute: disputeSubject,
  payout: payoutSubject,
  top_up: topUpSubject,
  kyc: verificationSubject,
  ai_task: aiTaskSubject,
  message: messageSubject,
  template: templateSubject,
  suppression: suppressionSubject,
  webhook_endpoint: webhookEndpointSubject,
  webhook_delivery: deliverySubject,
  webhook_recovery: recoverySubject,
} as const satisfies Record<string, Subject> & Record<CallingNoun, Subject & { under_way: UnderWay }>

export type Noun = keyof typeof SUBJECTS
export const NOUNS = Object.keys(SUBJECTS) as Noun[]

/** The nouns that a provider keeps records of too. */
export type ProviderNoun = {
  [N in Noun]: (typeof SUBJECTS)[N] extends { at_provider: object } ? N : never
}[Noun]
export const PROVIDER_NOUNS = NOUNS.filter((noun): noun is ProviderNoun => 'at_provider' in SUBJECTS[noun])

/** The nouns that money is posted for. */
export type PostingNoun = {
  [N in Noun]: (typeof SUBJECTS)[N] extends { posts: object } ? N : never
}[Noun]
export const POSTING_NOUNS = NOUNS.filter((noun): noun is PostingNoun => 'posts' in SUBJECTS[noun])

/** One row of a noun. */
export type SubjectKey = { tenant_id: string; subject: Noun; subject_id: string }

/** The entry of a noun. */
export function subjectOf(noun: Noun): Subject {
  return SUBJECTS[noun]
}

/** The entry of a noun that a provider keeps records of. */
export function providerSubjectOf(noun: ProviderNoun): ProviderSubject {
  return SUBJECTS[noun]
}

/** The nouns whose jobs, events and notifications are filed under this one. */
export function partsOf(noun: Noun): { noun: Noun; table: string; by: string }[] {
  return NOUNS.flatMap((each) => {
    const { table, part_of } = subjectOf(each)
    return part_of?.noun === noun ? [{ noun: each, table, by: part_of.by }] : []
  })
}

/** The noun under whose rows jobs, events and notifications of a noun are filed. */
export function rootOf(noun: Noun): Noun {
  const { part_of } = subjectOf(noun)
  if (part_of === undefined) return noun
  const root = NOUNS.find((each) => each === part_of.noun)
  assert(root !== undefined, `${noun} is a part of "${part_of.noun}", which is no noun`)
  return root
}

/** The column with the id of the row under which jobs, events and notifications of a noun are filed. */
export function filedBy(noun: Noun): string {
  return subjectOf(noun).part_of?.by ?? 'id'
}

/** The noun of a job `<noun>.<verb>`, or of a type of event; undefined when it is not known here. */
export function nounOf(job: string): Noun | undefined {
  return NOUNS.find((noun) => job.startsWith(`${noun}.`))
}

/** The statuses of a noun's rows while a call of ours is under way. */
export function statusesOfCalls(noun: Noun): string[] {
  return CALLS.flatMap(({ job, status }) => (nounOf(job) === noun ? (status ?? []) : []))
}

/** The statuses in which a call of ours or the provider works on a row. */
export function statusesUnderWay(noun: Noun): string[] {
  return [...statusesOfCalls(noun), ...(subjectOf(noun).under_way?.statuses ?? [])]
}

/** The payment of the row `row`: the row itself or what it is a part of; null if it has none. */
export function paymentOf(sql: Sql | Tx, noun: Noun, row: string): Fragment {
  return rootOf(noun) === 'payment' ? sql`${sql(`${row}.${filedBy(noun)}`)}` : sql`null::uuid`
}

/** The id of the row of a noun that the job `j` works on; null when its payload has none. */
export function rowIdOf(sql: Sql | Tx, noun: Noun): Fragment {
  const named = sql`j.payload ->> ${`${noun}_id`}::text`
  return rootOf(noun) === noun
    ? sql`j.subject_id`
    : sql`case when pg_input_is_valid(${named}, 'uuid') then (${named})::uuid end`
}

/** These columns of the row `row` as a JSON object. */
export function objectOf(sql: Sql | Tx, row: string, columns: readonly string[]): Fragment {
  return sql`(select to_jsonb(picked) from (select ${sql(columns.map((column) => `${row}.${column}`))}) picked)`
}
