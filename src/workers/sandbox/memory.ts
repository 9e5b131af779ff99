// The engines of sandboxes that a worker has in memory: those that it used last, limited in number, size and time.
import type { DueChange } from '#providers/sandbox/stripe/due-changes.ts'
import { createEngine, type Engine } from '#providers/sandbox/stripe/engine.ts'
import type { StoredEvent } from '#providers/sandbox/stripe/event-log.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { replayInto } from '#providers/sandbox/stripe/replay.ts'
import type { Version } from '#providers/sandbox/stripe/versions.ts'

/** An engine with the records that it contains: those up to `position` of one generation. */
export type HeldEngine = {
  engine: Engine
  versions: Map<number, Version>
  replay: (line: JournalLine) => void
  position: number
  generation: string
  /** The size of the records. */
  bytes: number
  /** The database's clock in the present transaction, unix milliseconds. */
  now_ms: number
  /** The events that the present transaction has made. */
  events: StoredEvent[]
  /** The exception of a request in the present transaction. */
  failure: Error | null
}

export type EngineMemory = {
  has(tenant_id: string): boolean
  /** Removes an engine from the memory, for one transaction. Undefined: it is not there. */
  take(tenant_id: string): HeldEngine | undefined
  /** Puts an engine back after its transaction was committed, and removes those that exceed the limits. */
  put(tenant_id: string, held: HeldEngine): void
  /** Removes the engines that were not used lately. */
  dropIdle(): void
}

/** An engine takes several times the size of its records. */
const LIMITS = { engines: 32, bytes: 64 * 1024 * 1024, idle_ms: 10 * 60_000 }

export function createEngineMemory(limits = LIMITS): EngineMemory {
  /** The one that was used last at the end. */
  const engines = new Map<string, { held: HeldEngine; used_at: number }>()
  let bytes = 0

  function take(tenant_id: string): HeldEngine | undefined {
    const found = engines.get(tenant_id)
    if (found === undefined) return undefined
    engines.delete(tenant_id)
    bytes -= found.held.bytes
    return found.held
  }

  return {
    has: (tenant_id) => engines.has(tenant_id),
    take,
    put(tenant_id, held) {
      take(tenant_id)
      engines.set(tenant_id, { held, used_at: performance.now() })
      bytes += held.bytes
      for (const oldest of engines.keys()) {
        if (engines.size <= limits.engines && bytes <= limits.bytes) break
        take(oldest)
      }
    },
    dropIdle() {
      const since = performance.now() - limits.idle_ms
      for (const [tenant_id, { used_at }] of engines) if (used_at < since) take(tenant_id)
    },
  }
}

/** How far changes of existing objects may exceed the limit of a sandbox. */
const CHANGES_FACTOR = 2

/** An engine without objects. It refuses requests that create objects while there are `max_bytes` of records. */
export function emptyEngine(
  generation: string,
  {
    max_bytes,
    onFailedChange,
    ...settings
  }: {
    account: string
    pages_url: string
    max_bytes: number
    onFailedChange: (error: unknown, change: DueChange) => void
  },
): HeldEngine {
  const versions = new Map<number, Version>()
  const engine = createEngine({
    ...settings,
    // The clock of the tenant moves deadlines only: workers read lists, and send calls again, by the real time.
    moves_records: false,
    hostMs: () => held.now_ms,
    hasRoom: (wanted) => held.bytes <= max_bytes * (wanted === 'creation' ? 1 : CHANGES_FACTOR),
    onEvent: (event) => void held.events.push(event),
    onFailure(error, change) {
      // The engine tries a scheduled change again a day later. It must not keep requests of the tenant from succeeding.
      if (change !== null) return onFailedChange(error, change)
      held.failure ??= error instanceof Error ? error : new Error(String(error))
    },
  })
  const held: HeldEngine = {
    engine,
    versions,
    replay: replayInto(engine, versions),
    position: 0,
    generation,
    bytes: 0,
    now_ms: 0,
    events: [],
    failure: null,
  }
  return held
}
