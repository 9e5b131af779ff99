// Recurring work for the sandboxes of tenants in test mode: performs their scheduled changes when they are due, carries
// out what people do in them, and deletes what is too old.
import { endAct, findOpenActs } from '#domain/sandboxes/acts.ts'
import { findDueSandboxes, postponeChanges } from '#domain/sandboxes/records.ts'
import { pruneNextSandbox } from '#domain/sandboxes/retention.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, together, type Loop } from '../clock.ts'
import { POLL_INTERVAL_MS, type HasWork } from '../polled-work.ts'

const BATCH_SIZE = 20
/** The delay before the changes of a sandbox are tried again after they failed, and after they could not begin. */
const RETRY_DELAY_S = 60
const NOT_STARTED_DELAY_S = 2
const PRUNE_INTERVAL_MS = 10 * 60_000
/** So many failures in one run are not those of single sandboxes. */
const MAX_PRUNE_FAILURES = 20

/** Starts the loops; safe in several workers at once. */
export function startSandboxes(context: WorkerContext, message_days: number, hasWork: HasWork): Loop {
  const { database, idleness } = context
  return together([
    repeatWhileCurrent(
      context,
      'acts in sandboxes, and their scheduled changes',
      () => POLL_INTERVAL_MS,
      async (mustEnd) => {
        if (!(await hasWork('sandboxes'))) return
        await carryOutActs(context, mustEnd)
        await performDue(context, mustEnd)
      },
    ),
    repeatWhileCurrent(
      context,
      'old records of sandboxes',
      idleness.interval(PRUNE_INTERVAL_MS, PRUNE_INTERVAL_MS),
      async (mustEnd) => {
        if (!database.isHeld()) await pruneAll(context, message_days, mustEnd)
      },
    ),
  ])
}

/** Prunes all sandboxes for which that is due. One that cannot be pruned keeps no other waiting. */
async function pruneAll(
  { sql, log }: WorkerContext,
  message_days: number,
  mustEnd: () => boolean,
): Promise<void> {
  let failure: unknown
  let failures = 0
  while (!mustEnd() && failures < MAX_PRUNE_FAILURES) {
    try {
      const tenant_id = await pruneNextSandbox(sql, message_days)
      if (tenant_id === null) break
      log.info({ tenant_id }, 'old records of a sandbox were deleted')
    } catch (error) {
      failure = error
      failures += 1
    }
  }
  if (failures > 0) throw failure
}

/**
 * Carries out the acts of people, each once. One that fails is refused: the person can repeat it. One that could not
 * begin is tried again. A worker whose queues need no ADDRESS_KEY may lack it, and leaves the acts to others.
 */
async function carryOutActs({ sql, modes, config }: WorkerContext, mustEnd: () => boolean): Promise<void> {
  const acts = config.ADDRESS_KEY === undefined ? [] : await findOpenActs(sql, BATCH_SIZE)
  if (acts.length === 0 || mustEnd()) return
  const sandboxes = await modes.sandboxes()
  const carryOut = async (act: (typeof acts)[number]) =>
    await sandboxes.carryOutAct(act).catch(async (error: unknown) => {
      if (!(error instanceof NotStarted))
        await endAct(sql, act.tenant_id, act.id, 'The sandbox has failed. Try again.')
    })
  await Promise.all(acts.map(carryOut))
}

/**
 * Performs what is due in some sandboxes. A failure is logged by the host. A sandbox that fails, or is too busy to
 * begin, keeps no other waiting.
 */
async function performDue({ sql, modes }: WorkerContext, mustEnd: () => boolean): Promise<void> {
  const due = await findDueSandboxes(sql, BATCH_SIZE)
  if (due.length === 0 || mustEnd()) return
  const { host } = await modes.sandboxes()
  const perform = async (tenant_id: string) =>
    await host.performDue(tenant_id).catch(async (error: unknown) => {
      const delay_s = error instanceof NotStarted ? NOT_STARTED_DELAY_S : RETRY_DELAY_S
      await postponeChanges(sql, tenant_id, delay_s)
    })
  await Promise.all(due.map(perform))
}
