// The sides of a comparison: our view and the provider's view of a row, in our terms.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** One side: the status and the other compared columns of the resource. */
export type Side = { status: string } & Readonly<Record<string, SideValue>>
type SideValue = string | number | boolean | null | undefined

/** The schema of a side in a drift. */
export type SideSchema = z.ZodObject<{ status: z.ZodString } & Record<string, z.ZodType<SideValue>>>

/** The columns of a resource with one amount. */
export const AMOUNT_SIDE = {
  status: z.string().meta({ description: 'The status, in our terms.', example: 'captured' }),
  amount_minor: z.int().meta({ description: 'The full amount.', example: 1000 }),
  currency: z.string().meta({ description: 'ISO 4217 currency code.', example: 'USD' }),
  processor_reference: z
    .string()
    .nullable()
    .meta({ description: 'Its id at the processor.', example: PAYMENTS.examples.payment }),
}

/** Whether the `reported` amount is the amount of our row `r`, whose currency may be in lower case. */
export function sameAmount(sql: Sql | Tx): Fragment {
  return sql`(r.amount_minor = reported.amount_minor and upper(r.currency) = reported.currency)`
}

/** The difference of two sides whose statuses agree. */
export type Difference = {
  detail: string | null
  /** Whether the difference may soon disappear, because other notifications of the same change are on their way. */
  transient: boolean
}
