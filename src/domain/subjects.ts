// The subjects: one entry for each noun that has a table. The audit, the reconciler, notifications, events, timelines
// and idempotency keys read from here what they need to know of every noun.
import type { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { SubjectChecks } from './audit/checks.ts'
import { checksOfPayments } from './audit/payments.ts'
import { checksOfRefunds } from './audit/refunds.ts'
import { CUSTOMER_EVENTS, customerEventSchema } from './customers/customer.ts'
import { PAYMENT_EVENTS, paymentEventSchema } from './payments/payment.ts'
import { REFUND_EVENTS, refundSchema } from './refunds/refund.ts'

export type Subject = {
  table: string
  /**
   * The noun that it is a part of, and the column with that noun's id: its jobs, events and notifications are filed
   * under that row.
   */
  part_of?: { noun: string; by: string }
  /** The columns that an event shows, and no others. */
  view: z.ZodObject
  /** Its events: the word after `<noun>.`, and the meaning. */
  events: Record<string, string>
  /** For nouns that a provider keeps records of too: how the two are compared. */
  at_provider?: AtProvider
  checks: SubjectChecks
}

export type AtProvider = {
  /** The columns with the provider's name and with the provider's id. */
  provider: string
  reference: string
  /** The condition for rows `p` that may still change; there is an index of these by tenant and creation. */
  open: (sql: Sql | Tx) => Fragment
  /** The statuses in which a job or the provider still works on it. */
  under_way: readonly string[]
  /** The columns that are compared. */
  side: readonly string[]
  /**
   * For each status at the provider the statuses of ours that agree with it, once everything the provider said has
   * been applied.
   */
  agrees: Readonly<Record<string, readonly string[]>>
}

export const SUBJECTS = {
  customer: { table: 'customers', view: customerEventSchema, events: CUSTOMER_EVENTS, checks: {} },
  payment: {
    table: 'payments',
    view: paymentEventSchema,
    events: PAYMENT_EVENTS,
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      open: (sql) => sql`p.open`,
      under_way: ['pending', 'capturing', 'canceling'],
      side: [
        'status',
        'amount_minor',
        'currency',
        'amount_capturable_minor',
        'amount_captured_minor',
        'amount_refunded_minor',
        'amount_refund_reserved_minor',
        'processor_reference',
      ],
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
    at_provider: {
      provider: 'processor',
      reference: 'processor_reference',
      open: (sql) => sql`p.status = 'pending'`,
      under_way: ['pending'],
      side: ['status', 'amount_minor', 'currency', 'processor_reference'],
      agrees: { pending: ['pending'], succeeded: ['succeeded'], failed: ['failed'] },
    },
    checks: checksOfRefunds,
  },
} as const satisfies Record<string, Subject>

export type Noun = keyof typeof SUBJECTS
export const NOUNS = Object.keys(SUBJECTS) as Noun[]

/** The nouns that a provider keeps records of too. */
export type ProviderNoun = {
  [N in Noun]: (typeof SUBJECTS)[N] extends { at_provider: AtProvider } ? N : never
}[Noun]
export const PROVIDER_NOUNS = NOUNS.filter((noun): noun is ProviderNoun => 'at_provider' in SUBJECTS[noun])

/** One row of a noun. */
export type SubjectKey = { tenant_id: string; subject: Noun; subject_id: string }

/** The entry of a noun. */
export function subjectOf(noun: Noun): Subject {
  return SUBJECTS[noun]
}

/** The nouns whose jobs, events and notifications are filed under this one. */
export function partsOf(noun: Noun): { noun: Noun; table: string; by: string }[] {
  return NOUNS.flatMap((each) => {
    const { table, part_of } = subjectOf(each)
    return part_of?.noun === noun ? [{ noun: each, table, by: part_of.by }] : []
  })
}

/** The column with the id of the row under which jobs, events and notifications of a noun are filed. */
export function filedBy(noun: Noun): string {
  return subjectOf(noun).part_of?.by ?? 'id'
}

/** Whether the job `j` works on this row of a noun. A job is named `<noun>.<verb>`, and its payload has `<noun>_id`. */
export function worksOn(sql: Sql | Tx, noun: Noun, id: Fragment): Fragment {
  return sql`(split_part(j.name, '.', 1) = ${noun} and j.payload ->> ${`${noun}_id`}::text = ${id}::text)`
}

/** These columns of the row `row` as a JSON object. */
export function objectOf(sql: Sql | Tx, row: string, columns: readonly string[]): Fragment {
  return sql`(select to_jsonb(picked) from (select ${sql(columns.map((column) => `${row}.${column}`))}) picked)`
}
