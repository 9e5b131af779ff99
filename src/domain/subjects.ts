// The subjects: one entry for each noun that has a table. The audit, the reconciler, notifications, events, timelines
// and idempotency keys read from here what they need to know of every noun.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { CALLS, type CallingNoun } from '#jobs/index.ts'
import { AI_TASK_EVENTS, aiTaskEventSchema } from './ai-tasks/ai-task.ts'
import { checksOfDisputes } from './audit/disputes.ts'
import { checksOfPayments } from './audit/payments.ts'
import { checksOfPayouts } from './audit/payouts.ts'
import { checksOfRefunds } from './audit/refunds.ts'
import { checksOfTopUps } from './audit/top-ups.ts'
import { checksOfKyc } from './audit/verifications.ts'
import { disputeSchema } from './disputes/dispute.ts'
import { disputeAgrees, disputeSide } from './disputes/side.ts'
import { CUSTOMER_EVENTS, customerEventSchema } from './customers/customer.ts'
import { MERCHANT_EVENTS, merchantSchema } from './merchants/merchant.ts'
import { PAYMENT_EVENTS, paymentEventSchema } from './payments/payment.ts'
import {
  closesDriftOfPayment,
  differenceOfPayments,
  paymentSide,
  paymentTellsNothing,
  refundsInWords,
} from './payments/side.ts'
import { RECIPIENT_EVENTS, recipientSchema } from './recipients/recipient.ts'
import { AMOUNT_SIDE, sameAmount } from './reconciliation/side.ts'
import { PAYOUT_EVENTS, payoutSchema } from './payouts/payout.ts'
import { payoutContradiction, payoutSide, payoutTellsNothing } from './payouts/side.ts'
import { REFUND_EVENTS, refundSchema } from './refunds/refund.ts'
import type { ProviderSubject, Subject, UnderWay } from './subject.ts'
import { topUpContradiction, topUpSide, topUpTellsNothing } from './top-ups/side.ts'
import { TOP_UP_EVENTS, topUpSchema } from './top-ups/top-up.ts'
import { differenceOfKyc, KYC_AGREES, kycSide } from './verifications/side.ts'
import { KYC_EVENTS, kycEventSchema } from './verifications/verification.ts'

export const SUBJECTS = {
  customer: { table: 'customers', view: customerEventSchema, events: CUSTOMER_EVENTS },
  recipient: { table: 'recipients', view: recipientSchema, events: RECIPIENT_EVENTS },
  merchant: { table: 'merchants', view: merchantSchema, events: MERCHANT_EVENTS },
  payment: {
    table: 'payments',
    view: paymentEventSchema,
    events: PAYMENT_EVENTS,
    posts: ['capture'],
    under_way: { open: (sql) => sql`p.open` },
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      side: paymentSide,
      tellsNothing: paymentTellsNothing,
      difference: differenceOfPayments,
      inWords: refundsInWords,
      closesDrift: closesDriftOfPayment,
      agrees: {
        // After a declined card the payment waits for another card there.
        requires_action: ['requires_action', 'failed'],
        processing: ['requires_action'],
        authorized: ['authorized'],
        captured: ['captured'],
        // A payment that failed here holds no money there either.
        canceled: ['canceled', 'failed'],
        failed: ['failed', 'canceled'],
      },
    },
    checks: checksOfPayments,
  },
  refund: {
    table: 'refunds',
    part_of: { noun: 'payment', by: 'payment_id' },
    view: refundSchema,
    events: REFUND_EVENTS,
    posts: ['refund', 'refund_failed'],
    under_way: {
      open: (sql) => sql`p.status = 'pending'`,
      left_to_provider: (sql) => sql`(p.imported or ${wasTaken(sql, 'refund', sql`p.payment_id`)})`,
    },
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      side: z.object(AMOUNT_SIDE),
      tellsNothing: (sql) => sql`${sameAmount(sql)} and said.status in ('pending', r.status)`,
      agrees: { pending: ['pending'], succeeded: ['succeeded'], failed: ['failed'] },
    },
    checks: checksOfRefunds,
  },
  dispute: {
    table: 'disputes',
    part_of: { noun: 'payment', by: 'payment_id' },
    view: disputeSchema,
    // The payment's events tell of it.
    events: {},
    posts: ['dispute_withdrawn', 'dispute_reinstated'],
    under_way: {
      open: (sql) => sql`p.closed_at is null`,
      statuses: ['needs_response', 'under_review', 'warning'],
    },
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      side: disputeSide,
      agrees: disputeAgrees,
    },
    checks: checksOfDisputes,
  },
  payout: {
    table: 'payouts',
    view: payoutSchema,
    events: PAYOUT_EVENTS,
    posts: ['payout_paid', 'payout_returned'],
    reserves: (sql) => sql`p.open`,
    under_way: {
      open: (sql) => sql`p.open`,
      // One that was failed by hand may be paid all the same, and the news of that may be lost.
      looked_at: (sql) => sql`(p.open or p.processor_status = 'processing')`,
      // The processor works on it until it tells how it went.
      left_to_provider: (sql) => sql`(p.status = 'processing' and p.cancel_requested_at is null)`,
    },
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      side: payoutSide,
      tellsNothing: payoutTellsNothing,
      contradiction: payoutContradiction,
      agrees: {
        // Whoever fails a payout by hand knows that the processor is not done with it.
        processing: ['processing', 'failed'],
        paid: ['paid'],
        failed: ['failed', 'canceled'],
        canceled: ['canceled', 'failed'],
      },
      undone: ['failed', 'canceled'],
    },
    checks: checksOfPayouts,
  },
  top_up: {
    table: 'top_ups',
    view: topUpSchema,
    events: TOP_UP_EVENTS,
    posts: ['top_up', 'top_up_reversed'],
    under_way: {
      open: (sql) => sql`p.status = 'pending'`,
      left_to_provider: (sql) => wasTaken(sql, 'top_up', sql`p.id`),
    },
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      side: topUpSide,
      tellsNothing: topUpTellsNothing,
      contradiction: topUpContradiction,
      agrees: {
        pending: ['pending'],
        succeeded: ['succeeded'],
        failed: ['failed'],
        canceled: ['canceled'],
        reversed: ['failed'],
      },
      undone: ['failed', 'canceled', 'reversed'],
    },
    checks: checksOfTopUps,
  },
  kyc: {
    table: 'verifications',
    view: kycEventSchema,
    events: KYC_EVENTS,
    under_way: {
      open: (sql) => sql`p.open`,
      // Whoever is verified takes their time, and then the provider.
      statuses: ['requires_input', 'processing'],
    },
    at_provider: {
      provider: 'provider',
      reference: 'provider_reference',
      side: kycSide,
      difference: differenceOfKyc,
      agrees: KYC_AGREES,
    },
    checks: checksOfKyc,
  },
  ai_task: {
    table: 'ai_tasks',
    view: aiTaskEventSchema,
    events: AI_TASK_EVENTS,
    under_way: { open: (sql) => sql`p.status in ('queued', 'running')` },
  },
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
  return NOUNS.find((each) => each === subjectOf(noun).part_of?.noun) ?? noun
}

/** The column with the id of the row under which jobs, events and notifications of a noun are filed. */
export function filedBy(noun: Noun): string {
  return subjectOf(noun).part_of?.by ?? 'id'
}

/** The noun of a job `<noun>.<verb>`; undefined when it is not known here. */
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

/** Whether the provider has taken the row `p`: also after its call has succeeded it may be pending there. */
function wasTaken(sql: Sql | Tx, noun: string, filed_under: Fragment): Fragment {
  return sql`exists (
    select from all_jobs j
    where j.tenant_id = p.tenant_id and j.subject_id = ${filed_under} and j.state = 'succeeded'
      and ${worksOn(sql, noun, sql`p.id`)})`
}

/** Whether the job `j` works on this row of a noun. A job is named `<noun>.<verb>`, and its payload has `<noun>_id`. */
export function worksOn(sql: Sql | Tx, noun: string, id: Fragment): Fragment {
  return sql`(split_part(j.name, '.', 1) = ${noun} and j.payload ->> ${`${noun}_id`}::text = ${id}::text)`
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
