// Performs the calls to the sandboxes of tenants in test mode, each in one transaction: it locks the sandbox, reads
// what other processes have written since, performs the call, and writes what that has changed.
import { requireVariable, type Config } from '#core/config.ts'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Json, Tx } from '#core/db.ts'
import { createGates } from '#core/gate.ts'
import type { Log } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { everyTick } from '#core/ticks.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { sandboxAccount } from '#domain/sandboxes/account.ts'
import { lockSandbox, readRecords, writeRecords, type SandboxState } from '#domain/sandboxes/records.ts'
import { dropRecords } from '#domain/sandboxes/retention.ts'
import { NoAnswer } from '#providers/http.ts'
import { NotStarted } from '#providers/permit.ts'
import { followClock, runDue } from '#providers/sandbox/stripe/due.ts'
import { nowMs, type Engine } from '#providers/sandbox/stripe/engine.ts'
import { renderEvent } from '#providers/sandbox/stripe/events.ts'
import { rootsByEnd } from '#providers/sandbox/stripe/families.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { nextDueMs } from '#providers/sandbox/stripe/schedule.ts'
import { EVENT_TYPES, readEvent } from '#providers/stripe/events.ts'
import { recordsOf } from './lines.ts'
import { createEngineMemory, emptyEngine, type HeldEngine } from './memory.ts'

/** A call waits until the calls of the same tenant in this process, and then those in others, have ended. */
const QUEUE = {
  waiting: 1_000,
  wait_ms: 10_000,
  refuse: () => new NotStarted('too many calls wait for the sandbox of this tenant'),
}
const STATEMENT_TIMEOUT_MS = 10_000
/** Calls of test mode take no connections from live jobs. */
const CONNECTIONS = 2
/**
 * The size of a sandbox, as its records. When it is full, the oldest objects for which nothing is expected any more are
 * deleted until this share is free.
 */
const MAX_BYTES = 32 * 1024 * 1024
const FREED_SHARE = 0.25
/** The interval at which the memory drops engines that are not used any more. */
const DROP_INTERVAL_MS = 60_000

type CallOptions = {
  /** Called when the call may start: the sandbox is free in this process. Its exceptions are those of the call. */
  begin?: () => Promise<void>
}

export type SandboxHost = {
  /**
   * Performs synchronous work of an engine, with everything that it changes, and its events as notifications. Rejects
   * with `NoAnswer`, which says whether the work may have had an effect.
   */
  perform<T>(tenant_id: string, work: (engine: Engine) => T, options?: CallOptions): Promise<T>
  /**
   * As `perform`, for work that also reads and writes other rows in the transaction. `run` performs synchronous work of
   * the engine.
   */
  performWithin<T>(
    tenant_id: string,
    work: (tx: Tx, run: <R>(work: (engine: Engine) => R) => R) => Promise<T>,
  ): Promise<T>
  /** Performs the scheduled changes of a sandbox that are due. */
  performDue(tenant_id: string): Promise<void>
  /** Moves the clock of a sandbox until it is this far ahead of the real time, and performs what is due by then. */
  followClock(tenant_id: string, offset_ms: number): Promise<void>
  /** Does work in a transaction that has locked the sandbox. Rejects as `perform` does. */
  transact<T>(tenant_id: string, work: (tx: Tx) => Promise<T>, options?: CallOptions): Promise<T>
  close(): Promise<void>
}

export function openSandboxHost(config: Config, log: Log, { max_bytes = MAX_BYTES } = {}): SandboxHost {
  const sql = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: CONNECTIONS,
    application_name: 'sluice-worker-sandbox',
    pool_name: 'sandbox',
    statement_timeout_ms: STATEMENT_TIMEOUT_MS,
  })
  const serialize = createGates({ running: 1, queue: QUEUE })
  const memory = createEngineMemory()
  const stopDropping = everyTick(() => memory.dropIdle(), DROP_INTERVAL_MS)

  async function transact<T>(
    tenant_id: string,
    work: (tx: Tx, state: SandboxState) => Promise<T>,
    { begin }: CallOptions = {},
  ): Promise<T> {
    return await serialize(tenant_id, async () => {
      await begin?.()
      let commits = false
      try {
        return (await sql.begin(async (tx) => {
          const done = await work(tx, await lockSandbox(tx, tenant_id))
          commits = true
          return done
        })) as T
      } catch (error) {
        log.warn({ err: error, tenant_id }, 'a call to the sandbox of a tenant failed')
        const reason = `the sandbox failed: ${error instanceof Error ? error.message : String(error)}`
        throw new NoAnswer(reason, { sent: commits })
      }
    })
  }

  async function performWithin<T>(
    tenant_id: string,
    work: (tx: Tx, run: <R>(work: (engine: Engine) => R) => R) => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const { result, held } = await transact(
      tenant_id,
      async (tx, state) => {
        const taken = await upToDate(tx, tenant_id, state)
        const lines = beginJournal(taken)
        const done = await work(tx, (of_engine) => of_engine(taken.engine))
        taken.engine.journal = null
        if (taken.failure !== null) throw taken.failure
        if (lines.length > 0) await write(tx, tenant_id, taken, lines)
        if (taken.bytes <= max_bytes) return { result: done, held: taken }
        await free(tx, tenant_id, taken)
        return { result: done, held: null }
      },
      options,
    )
    // Unless the transaction is committed, the engine contains what did not happen, and is not used any more.
    if (held !== null) memory.put(tenant_id, held)
    return result
  }

  /** The engine of a sandbox with all of its records. */
  async function upToDate(tx: Tx, tenant_id: string, state: SandboxState): Promise<HeldEngine> {
    const { generation, last_position } = state
    const existing = memory.take(tenant_id)
    const held =
      existing?.generation === generation && existing.position <= last_position
        ? existing
        : emptyEngine(generation, {
            account: sandboxAccount(tenant_id),
            pages_url: `${config.DASHBOARD_URL ?? 'http://sandbox.invalid'}/test/sandbox`,
            onFailedChange: (err, change) =>
              log.error({ err, tenant_id, ...change }, 'a scheduled change of a sandbox failed'),
          })
    const range = { after: held.position, until: last_position }
    await readRecords(tx, tenant_id, range, (line) => held.replay(line as JournalLine))
    held.position = last_position
    held.bytes = state.bytes
    held.now_ms = state.now_ms
    held.engine.clock.offset_ms = state.clock_offset_ms
    return held
  }

  async function free(tx: Tx, tenant_id: string, { engine, bytes }: HeldEngine): Promise<void> {
    const excess = Math.ceil(bytes - max_bytes * (1 - FREED_SHARE))
    const freed = await dropRecords(tx, tenant_id, { roots: rootsByEnd(engine), bytes: excess })
    log.warn({ tenant_id, bytes, freed }, 'the sandbox of a tenant is full: its oldest objects were deleted')
  }

  const perform: SandboxHost['perform'] = (tenant_id, work, options) =>
    performWithin(tenant_id, (_tx, run) => Promise.resolve(run(work)), options)

  return {
    perform,
    performWithin,
    performDue: (tenant_id) => perform(tenant_id, (engine) => runDue(engine, nowMs(engine))),
    followClock: (tenant_id, offset_ms) =>
      perform(tenant_id, (engine) => followClock(engine, Math.floor(offset_ms))),
    transact: (tenant_id, work, options) => transact(tenant_id, (tx) => work(tx), options),
    async close() {
      stopDropping()
      await sql.end({ timeout: 5 })
    },
  }
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
  const { offset_ms } = engine.clock
  const due_ms = nextDueMs(engine)
  held.bytes = await writeRecords(tx, tenant_id, records, {
    last_position: position,
    clock_offset_ms: offset_ms,
    due_ms: due_ms === null ? null : due_ms - offset_ms,
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
