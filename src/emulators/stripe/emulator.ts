// What every operation of the emulator gets first: its state, its clock and its record.
import type { AppendFile } from '../shared/append-file.ts'
import type { Effects } from '../shared/effects.ts'
import type { EventLog } from './event-log.ts'
import type { Faults } from '../shared/faults.ts'
import type { Idempotency } from './idempotency.ts'
import type { RequestLog } from '../shared/requests.ts'
import type { Store } from './store.ts'
import type { Webhooks } from './webhooks.ts'

export type Emulator = {
  /** `http://127.0.0.1:12111`. */
  url: string
  /** Null: any key will do. */
  api_key: string | null
  /** The id of the account that the key is of. */
  account: string
  capture_window_ms: number
  search_lag_ms: number
  /** How long a payment out stays paid before its bank sends it back. */
  late_return_ms: number
  /** Show released money as refunds too, as Stripe may do. */
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
  /** Intents in the order in which their holds lapse. */
  holds: { id: string; until_ms: number }[]
  /** Of what will happen by itself. */
  timers: Set<NodeJS.Timeout>
  /** Nothing may happen any more. */
  closed: boolean
}

export function nowMs(emulator: Emulator): number {
  return Date.now() + emulator.clock.offset_ms
}

/** Unix seconds. */
export function nowS(emulator: Emulator): number {
  return Math.floor(nowMs(emulator) / 1000)
}
