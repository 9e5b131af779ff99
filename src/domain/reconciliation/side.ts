// The sides of a comparison: ours and the provider's view of a row, in our words.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** One side: the status, and the other columns that the row's noun compares. */
export type Side = { status: string } & Readonly<Record<string, SideValue>>
type SideValue = string | number | null | undefined

/** The columns of a side, as a drift shows them. */
export type SideSchema = z.ZodObject<{ status: z.ZodString } & Record<string, z.ZodType<SideValue>>>

/** The columns of whatever moves one amount. */
export const AMOUNT_SIDE = {
  status: z.string().meta({ description: 'The status, in our terms.', example: 'captured' }),
  amount_minor: z.int().meta({ description: 'The whole amount.', example: 1000 }),
  currency: z.string().meta({ description: 'ISO 4217 currency code.', example: 'USD' }),
  processor_reference: z
    .string()
    .nullable()
    .meta({ description: 'Its id at the processor.', example: PAYMENTS.examples.payment }),
}

/** The condition under which what an event `reported` is of the same amount as our row `r`, whose currency is in any case. */
export function sameAmount(sql: Sql | Tx): Fragment {
  return sql`(r.amount_minor = reported.amount_minor and upper(r.currency) = reported.currency)`
}

/** How two sides differ whose statuses agree. */
export type Difference = {
  detail: string | null
  /** It may soon be gone, because other notifications of the same change are on their way. */
  transient: boolean
}
