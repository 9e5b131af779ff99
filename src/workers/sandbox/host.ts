// Performs the calls to the sandboxes of tenants in test mode, each in one transaction: it locks the sandbox, reads
// what other processes have written since, performs the call, and writes what that has changed.
import { setTimeout as sleep } from 'node:timers/promises'
import { requireVariable, type Config } from '#core/config.ts'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Json, Tx } from '#core/db.ts'
import { createGate, type Gate } from '#core/gate.ts'
import type { Log } from '#core/log.ts'
import { everyTick } from '#core/ticks.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { sandboxAccount } from '#domain/sandboxes/account.ts'
import {
  lockDueSandbox,
  lockSandbox,
  readRecords,
  RECORD_FORMAT,
  writeRecords,
  type SandboxState,
} from '#domain/sandboxes/records.ts'
import { dropRecords } from '#domain/sandboxes/retention.ts'
import { NotStarted } from '#providers/permit.ts'
import { followClock, runDue } from '#providers/sandbox/stripe/due.ts'
import { nowMs, type Engine } from '#providers/sandbox/stripe/engine.ts'
import { renderEvent } from '#providers/sandbox/stripe/events.ts'
import { endedRoots } from '#providers/sandbox/stripe/families.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { readLine } from '#providers/sandbox/stripe/read-line.ts'
import { nextDueMs } from '#providers/sandbox/stripe/schedule.ts'
import { EVENT_TYPES, readEvent } from '#providers/stripe/events.ts'
import { withinLimits, type SandboxCallLimits, type SandboxCall } from './call.ts'
import { recordsOf } from './lines.ts'
import { createEngineMemory, emptyEngine, type EngineMemory, type HeldEngine } from './memory.ts'
import { openTransactions, QUEUE } from './transactions.ts'

/**
 * The size of a sandbox, as its records. When it is full, the objects for which nothing is expected any more and that
 * have not changed for the longest time are deleted until this share is free. Each deletion costs a replay of the rest,
 * so it waits until it frees at least half of that. Meanwhile the sandbox refuses new objects.
 */
const MAX_BYTES = 8 * 1024 * 1024
const FREED_SHARE = 0.25
/** Replays run on the event loop of live jobs, one at a time. So this limits their share of the processor. */
const REPLAYED_BYTES_PER_S = 16 * 1024 * 1024
/** The interval at which the memory drops engines that are not used any more. */
const DROP_INTERVAL_MS = 60_000
/** The delay of a job that a worker with this version cannot perform. */
const NEWER_FORMAT_DELAY_MS = 1_000

/** Work in the transaction of a call. */
type OpenSandbox = {
  /** Locks the sandbox until the end of the transaction, and waits until the call may begin. */
  lock: () => Promise<void>
  /** The same, and performs synchronous work of the engine. */
  run: <R>(work: (engine: Engine) => R) => Promise<R>
}

/**
 * All calls reject with NotStarted if they certainly had no effect and can be repeated, and otherwise with NoAnswer,
 * which says whether the work may have had an effect.
 */
export type SandboxHost = {
  /** Performs synchronous work of an engine, with everything that it changes, and its events as notifications. */
  perform<T>(tenant_id: string, work: (engine: Engine) => T, limits?: SandboxCallLimits): Promise<T>
  /** As `perform`, for work that also reads and writes other rows in the transaction. */
  performWithin<T>(tenant_id: string, work: (tx: Tx, sandbox: OpenSandbox) => Promise<T>): Promise<T>
  /** Performs the scheduled changes of a sandbox that are due, unless another call works on it. */
  performDue(tenant_id: string): Promise<void>
  /** Moves the clock of a sandbox until it is this far ahead of the real time, and performs what is due by then. */
  followClock(tenant_id: string, offset_ms: number): Promise<void>
  /** Does work in a transaction that has locked the sandbox. */
  transact<T>(tenant_id: string, work: (tx: Tx) => Promise<T>, limits?: SandboxCallLimits): Promise<T>
  close(): Promise<void>
}

type HostContext = {
  log: Log
  memory: EngineMemory
  max_bytes: number
  /** The address of the pages of all sandboxes. */
  pages_url: string
}

export function openSandboxHost(config: Config, log: Log, { max_bytes = MAX_BYTES } = {}): SandboxHost {
  const { begin, close } = openTransactions(requireVariable(config, 'DATABASE_URL'), log)
  const serializeReplays = createGate({ running: 1, queue: QUEUE })
  const memory = createEngineMemory()
  const pages_url = `${config.DASHBOARD_URL ?? 'http://sandbox.invalid'}/test/sandbox`
  const context: HostContext = { log, memory, max_bytes, pages_url }
  const stopDropping = everyTick(() => memory.dropIdle(), DROP_INTERVAL_MS)

  async function performWithin<T>(
    tenant_id: string,
    work: (tx: Tx, sandbox: OpenSandbox) => Promise<T>,
    limits: SandboxCallLimits = {},
  ): Promise<T> {
    const pass: Gate = (attempt, waiter) =>
      memory.has(tenant_id) ? attempt() : serializeReplays(attempt, waiter)
    const { result } = await withinLimits(limits, (call) =>
      begin(tenant_id, call, (tx) => performIn(context, { tx, tenant_id, call }, work), {
        pass,
        // Unless the transaction is committed, the engine contains what did not happen, and is not used any more.
        onCommit({ held }) {
          if (held !== null) memory.put(tenant_id, held)
        },
      }),
    )
    return result
  }

  return {
    perform: (tenant_id, work, limits) => performWithin(tenant_id, (_tx, { run }) => run(work), limits),
    performWithin: (tenant_id, work) => performWithin(tenant_id, work),
    performDue: (tenant_id) =>
      performWithin(tenant_id, async (tx, { run }) => {
        if (await lockDueSandbox(tx, tenant_id)) await run((engine) => runDue(engine, nowMs(engine)))
      }),
    followClock: (tenant_id, offset_ms) =>
      performWithin(tenant_id, (_tx, { run }) => run((engine) => followClock(engine, Math.floor(offset_ms)))),
    transact: (tenant_id, work, limits = {}) =>
      withinLimits(limits, (call) =>
        begin(tenant_id, call, async (tx) => {
          await lockSandbox(tx, tenant_id)
          await call.begin()
          return await work(tx)
        }),
      ),
    async close() {
      stopDropping()
      await close()
    },
  }
}

/** Does work in a transaction, and writes what it changes. `held`: the engine to keep after the commit. */
async function performIn<T>(
  context: HostContext,
  { tx, tenant_id, call }: { tx: Tx; tenant_id: string; call: SandboxCall },
  work: (tx: Tx, sandbox: OpenSandbox) => Promise<T>,
): Promise<{ result: T; held: HeldEngine | null }> {
  let state: SandboxState | undefined
  let taken: { held: HeldEngine; lines: JournalLine[] } | undefined
  const lock = async () => (state ??= await lockSandbox(tx, tenant_id))
  const load = async () => {
    const held = await upToDate(context, tx, tenant_id, await lock())
    return { held, lines: beginJournal(held) }
  }
  try {
    const result = await work(tx, {
      async lock() {
        await lock()
        await call.begin()
      },
      async run(of_engine) {
        taken ??= await load()
        await call.begin()
        return of_engine(taken.held.engine)
      },
    })
    if (taken === undefined) return { result, held: null }
    const { held, lines } = taken
    held.engine.journal = null
    if (held.failure !== null) throw held.failure
    if (lines.length > 0 || dueMs(held) !== state?.due_ms) await write(tx, tenant_id, held, lines)
    const is_freed =
      lines.length > 0 && held.bytes > context.max_bytes && (await free(context, tx, tenant_id, held))
    return { result, held: is_freed ? null : held }
  } catch (error) {
    // The engine has only read what is committed.
    if (error instanceof NotStarted && taken?.lines.length === 0) context.memory.put(tenant_id, taken.held)
    throw error
  }
}

/** The engine of a sandbox with all of its records. */
async function upToDate(
  { log, memory, pages_url, max_bytes }: HostContext,
  tx: Tx,
  tenant_id: string,
  state: SandboxState,
): Promise<HeldEngine> {
  const { format, generation, last_position } = state
  if (format > RECORD_FORMAT)
    throw new NotStarted(
      'a newer version has written the sandbox: a worker with that version performs the call',
      {
        delay_ms: NEWER_FORMAT_DELAY_MS,
      },
    )
  const existing = memory.take(tenant_id)
  const held =
    existing?.generation === generation && existing.position <= last_position
      ? existing
      : emptyEngine(generation, {
          account: sandboxAccount(tenant_id),
          pages_url,
          max_bytes,
          onFailedChange: (err, change) =>
            log.error({ err, tenant_id, ...change }, 'a scheduled change of a sandbox failed'),
        })
  const range = { after: held.position, until: last_position }
  await readRecords(
    tx,
    tenant_id,
    range,
    (line) => held.replay(readLine(line)),
    async (bytes) => await sleep((bytes / REPLAYED_BYTES_PER_S) * 1000),
  )
  held.position = last_position
  held.bytes = state.bytes
  held.now_ms = state.now_ms
  held.engine.clock.offset_ms = state.clock_offset_ms
  return held
}

/** Returns false if nothing was deleted. */
async function free(
  { log, max_bytes }: HostContext,
  tx: Tx,
  tenant_id: string,
  { engine, bytes }: HeldEngine,
): Promise<boolean> {
  const freed = await dropRecords(tx, tenant_id, {
    roots: endedRoots(engine),
    bytes: Math.ceil(bytes - max_bytes * (1 - FREED_SHARE)),
    at_least: Math.ceil((max_bytes * FREED_SHARE) / 2),
  })
  if (freed === 0) return false
  log.warn(
    { tenant_id, bytes, freed },
    'the sandbox of a tenant is full: its oldest ended objects were deleted',
  )
  return true
}

/** Begins a journal for the present transaction, and returns its lines. */
function beginJournal(held: HeldEngine): JournalLine[] {
  const lines: JournalLine[] = []
  Object.assign(held, { events: [], failure: null })
  held.engine.journal = { append: (line) => void lines.push(line) }
  return lines
}

async function write(tx: Tx, tenant_id: string, held: HeldEngine, lines: JournalLine[]): Promise<void> {
  const { engine, position, events } = held
  const records = recordsOf(held, lines)
  held.bytes = await writeRecords(tx, tenant_id, records, {
    last_position: position,
    clock_offset_ms: engine.clock.offset_ms,
    due_ms: dueMs(held),
  })
  held.position = position + records.length
  const account = sandboxAccount(tenant_id)
  const arrivals = events
    .filter(({ type }) => EVENT_TYPES.includes(type))
    .flatMap((event) => readEvent(JSON.parse(JSON.stringify(renderEvent(engine, event))) as Json) ?? [])
    .map((event) => ({
      ...notificationOf({ provider: PAYMENTS.provider, livemode: false }, { ...event, account }),
      will_wake: false,
      request_id: null,
    }))
  if (arrivals.length > 0) await storeNotifications(tx, arrivals)
}

/** When the next scheduled change is due, by the database's clock in unix milliseconds; null: none is scheduled. */
function dueMs({ engine }: HeldEngine): number | null {
  const due_ms = nextDueMs(engine)
  return due_ms === null ? null : due_ms - engine.clock.offset_ms
}
