// The state of the emulator, its clock and its record of effects.
import type { AppendFile } from '../shared/append-file.ts'
import type { Effects } from '../shared/effects.ts'
import type { EventLog } from './event-log.ts'
import type { Faults } from '../shared/faults.ts'
import type { Idempotency } from './idempotency.ts'
import type { RequestLog } from '../shared/requests.ts'
import type { Store } from './store.ts'
import type { Webhooks } from './webhooks.ts'

export type Emulator = {
  /** The URL of the emulator, e.g. `http://127.0.0.1:12111`. */
  url: string
  /** The API key; null: any key is accepted. */
  api_key: string | null
  /** The id of the account that the key belongs to. */
  account: string
  capture_window_ms: number
  search_lag_ms: number
  /** Time that a payout to `ba_lateReturn` stays paid before the bank returns it. */
  late_return_ms: number
  /** Whether released holds are also reported as refunds, as Stripe may do. */
  release_refunds: boolean
  clock: { offset_ms: number }
  store: Store
  events: EventLog
  effects: Effects
  idempotency: Idempotency
  faults: Faults
  requests: RequestLog
  webhooks: Webhooks | null
  journal: AppendFile | null
  /** Payment intents with a hold, in order of expiry. */
  holds: { id: string; until_ms: number }[]
  /** Timers of scheduled changes. */
  timers: Set<NodeJS.Timeout>
  /** Set by `close`. A closed emulator makes no further changes. */
  closed: boolean
}

/** The time of the emulator's clock in unix milliseconds. */
export function nowMs(emulator: Emulator): number {
  return Date.now() + emulator.clock.offset_ms
}

/** The time of the emulator's clock in unix seconds. */
export function nowS(emulator: Emulator): number {
  return Math.floor(nowMs(emulator) / 1000)
}
