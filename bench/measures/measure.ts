// What a measure is: a part of the system, run against its floor, answered as rows of the table.
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

/** Of goals.md: the better of Medusa 2.21 and Vendure 3.7 on the machine that its figures come from. */
export const PEERS = { create_customer: 264, list: 491, authorize: 82, capture: 110 }

let counter = 0

/** A key that no other request of this run has. */
export function freshKey(): string {
  counter += 1
  return `bench-${process.pid}-${counter}`
}
