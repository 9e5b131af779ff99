// The type of a measure: a part of the system, compared with its floor, as rows of the table.
import { setTimeout as sleep } from 'node:timers/promises'
import { hasOpenWork } from '#test/open-work.ts'
import type { Costs, Row } from '../table.ts'
import type { System } from '../system.ts'

export type Measure = {
  name: string
  /** One line for `--help`. */
  about: string
  /** The measure takes long, so it runs only when `--only` names it. */
  on_demand?: true
  run: (system: System) => Promise<Row[]>
  /** Starts what the rows of `--guard` need. `cleanup` stops it. */
  guarded?: (system: System, cleanup: AsyncDisposableStack) => Promise<GuardedWork[]>
}

/** The same work, done by the product and by its floor for this many seconds. */
export type GuardedWork = {
  name: string
  product: (seconds: number) => Promise<Costs>
  floor: (seconds: number) => Promise<Costs>
}

/** Requests per second of the better of Medusa 2.21 and Vendure 3.7, measured on another day. For comparison only. */
const PEER_RATES = { create_customer: 264, list: 491, authorize: 82, capture: 110 }

/** The rate of the better of the two other products, for comparison. */
export function peer(work: keyof typeof PEER_RATES): { name: string; value: number } {
  return { name: 'the better peer, on another day', value: PEER_RATES[work] }
}

/** A provider request for an authorization of USD 10.00. */
export const AUTHORIZATION_FORM =
  'amount=1000&currency=usd&payment_method=pm_card_visa&confirm=true&capture_method=manual' +
  '&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never'

/** All work of a run is due within this time, in seconds. */
export const DUE_WITHIN_S = 600

/** Resolves when no work is open. */
export async function untilDrained({ sql }: Pick<System, 'sql'>): Promise<void> {
  while (await hasOpenWork(sql, DUE_WITHIN_S)) await sleep(50)
}
