// The engine of the Stripe emulator: Stripe's API on a state in memory, without sockets and timers. Its host performs
// requests (`requests.ts`), runs scheduled changes when they are due (`schedule.ts`, `due.ts`) and delivers events
// (`events.ts`). It may keep a journal (`journal.ts`), from which it restores the state (`replay.ts`).
import { emptySchedule, type DueChange, type Schedule } from './due-changes.ts'
import type { Effect } from './effects.ts'
import { emptyEventLog, type EventLog, type StoredEvent } from './event-log.ts'
import { emptyIdempotency, type Idempotency } from './idempotency.ts'
import type { Journal } from './journal.ts'
import { emptyStore, type Store } from './store.ts'

export type EngineSettings = {
  /** The API keys, separated by commas; null: any key is accepted. */
  api_key: string | null
  /** The id of the account that the key belongs to. */
  account: string
  /**
   * The URL under which the host serves the pages of buyers and persons: `/payment_intents/:id/authenticate` and
   * `/identity/:id/start?link=`.
   */
  pages_url: string
  capture_window_ms: number
  search_lag_ms: number
  /** Time that a payout to `ba_lateReturn` stays paid before the bank returns it. */
  late_return_ms: number
  /** Whether released holds are also reported as refunds, as Stripe may do. */
  release_refunds: boolean
  /**
   * Whether everything follows the moved clock. If not, only deadlines do: what is stored, the ranges of lists, and the
   * retention of idempotency keys have the host's time.
   */
  moves_records: boolean
}

/**
 * What the host adds. The engine calls the hooks while it performs a request or a scheduled change, after it has saved
 * objects, so a hook must not throw. `journal.ts` says when the host may act on them.
 */
type EngineHooks = {
  /** Whether no event is made for the change that happens now. */
  omitsEvent: () => boolean
  /** Whether the host delivers events of this type. If so, each is pending until `markDelivered`. */
  isSubscribed: (type: string) => boolean
  onEvent: (event: StoredEvent) => void
  /** A movement of money. */
  onEffect: (effect: Effect) => void
  /** A change was scheduled: `nextDueMs` may be earlier than before. */
  onScheduled: () => void
  /** Whether the host has room for another object, or for a change that does not end one. */
  hasRoom: (wanted: 'creation' | 'change') => boolean
  /** An exception: of a request, which is answered with 500, or of a scheduled change, which is scheduled again. */
  onFailure: (error: unknown, change: DueChange | null) => void
}

/** The only clock of the engine. */
type EngineClock = {
  /** The time of the host in unix milliseconds. If it goes back, the host calls `keepDelays`. */
  hostMs: () => number
  /** How far the engine's clock is ahead of the host's. */
  offset_ms: number
}

/**
 * The journal contains all changes of the clock's offset, the objects, the events, the stored answers and the schedule.
 * It contains neither the settings, which the host may change, nor the requests in progress (`idempotency.inFlight`).
 */
export type Engine = EngineSettings & {
  hooks: EngineHooks
  clock: EngineClock
  store: Store
  events: EventLog
  idempotency: Idempotency
  schedule: Schedule
  /** Null: the state is in memory only. */
  journal: Journal | null
}

const ACCOUNT = 'acct_1SluiceEmulator'
const CAPTURE_WINDOW_MS = 7 * 24 * 60 * 60 * 1000
/** Time that a payout to `ba_lateReturn` stays paid, long enough for a webhook of `payout.paid` and a lookup. */
const LATE_RETURN_MS = 2000

/** `hostMs`: the clock of the host. Default: the system's. */
export type EngineOptions = Partial<EngineSettings & EngineHooks & Pick<EngineClock, 'hostMs'>>

/** Creates an engine without objects. */
export function createEngine(options: EngineOptions = {}): Engine {
  return {
    api_key: options.api_key ?? null,
    account: options.account ?? ACCOUNT,
    pages_url: options.pages_url ?? '',
    capture_window_ms: options.capture_window_ms ?? CAPTURE_WINDOW_MS,
    search_lag_ms: options.search_lag_ms ?? 0,
    late_return_ms: options.late_return_ms ?? LATE_RETURN_MS,
    release_refunds: options.release_refunds ?? false,
    moves_records: options.moves_records ?? true,
    hooks: {
      omitsEvent: options.omitsEvent ?? (() => false),
      isSubscribed: options.isSubscribed ?? (() => false),
      onEvent: options.onEvent ?? (() => {}),
      onEffect: options.onEffect ?? (() => {}),
      onScheduled: options.onScheduled ?? (() => {}),
      hasRoom: options.hasRoom ?? (() => true),
      onFailure: options.onFailure ?? (() => {}),
    },
    clock: { hostMs: options.hostMs ?? (() => Date.now()), offset_ms: 0 },
    store: emptyStore(),
    events: emptyEventLog(),
    idempotency: emptyIdempotency(),
    schedule: emptySchedule(),
    journal: null,
  }
}

/** The time of the engine's clock in unix milliseconds. */
export function nowMs({ clock }: Engine): number {
  return clock.hostMs() + clock.offset_ms
}

/** The time of the engine's clock in unix seconds. */
export function nowS(engine: Engine): number {
  return Math.floor(nowMs(engine) / 1000)
}

/** The time that records get, in unix milliseconds. */
export function recordMs(engine: Engine): number {
  return engine.moves_records ? nowMs(engine) : engine.clock.hostMs()
}

/** The time that records get, in unix seconds. */
export function recordS(engine: Engine): number {
  return Math.floor(recordMs(engine) / 1000)
}
