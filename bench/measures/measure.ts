// What a measure is: a part of the system, run against its floor, answered as rows of the table.
import { setTimeout as sleep } from 'node:timers/promises'
import { hasOpenWork } from '#test/open-work.ts'
import type { Row } from '../table.ts'
import type { System } from '../system.ts'

export type Measure = {
  name: string
  /** A line for `--help`. */
  about: string
  /** It takes so long that it is measured only when it is named. */
  on_demand?: true
  run: (system: System) => Promise<Row[]>
}

/** Requests a second of the better of Medusa 2.21 and Vendure 3.7, on another day: shown to compare with, and judged by nobody. */
const PEER_RATES = { create_customer: 264, list: 491, authorize: 82, capture: 110 }

/** The peer as what a row is compared with. */
export function peer(work: keyof typeof PEER_RATES): { name: string; value: number } {
  return { name: 'the better peer, on another day', value: PEER_RATES[work] }
}

/** Asks the provider's own API for a payment of 10 USD that is held and not captured. */
export const HOLD_FORM =
  'amount=1000&currency=usd&payment_method=pm_card_visa&confirm=true&capture_method=manual' +
  '&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never'

/** In seconds: nothing that a run leaves behind waits for longer. */
export const SOON_S = 600

/** Resolves when nothing is left to do. */
export async function untilDrained({ sql }: Pick<System, 'sql'>): Promise<void> {
  while (await hasOpenWork(sql, SOON_S)) await sleep(50)
}
