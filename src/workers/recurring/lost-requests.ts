// After a switch of the database, compares the accepted requests that Redis has recorded with the database, and reports
// those that are lost.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { endRun, findLastPosition, renewRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import {
  findUncomparedSwitch,
  LOST_REQUESTS,
  pathOfRoute,
  reportLostRequests,
  type UncomparedSwitch,
} from '#domain/lost-requests/report.ts'
import type { Queue, RecordedRequest } from '#queue/queue.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

const POLL_INTERVAL_MS = 5_000
/** The number of entries in one step. Each has up to a hundred requests. */
const BATCH_SIZE = 50

/** `number`: the last switch that was compared. `after`: the last entry that was compared with the next switch. */
const positionSchema = z.object({ number: z.int(), after: z.string().nullable() })
type Position = z.output<typeof positionSchema>

/** Starts the loop. Does nothing without a stream. */
export function startLostRequests({ sql, log, database }: WorkerContext, accepted: Queue['accepted']): Loop {
  return repeatWhileCurrent(
    { log, database },
    LOST_REQUESTS,
    () => POLL_INTERVAL_MS,
    async (mustEnd) => {
      if (accepted === null) return
      const { number } = positionOf(await findLastPosition(sql, LOST_REQUESTS))
      if ((await findUncomparedSwitch(sql, number)) === undefined) return
      await runIfDue(sql, LOST_REQUESTS, async (run) => {
        const { reported, malformed } = await compareAll(sql, run, accepted, mustEnd)
        if (malformed > 0)
          log.warn(
            { malformed },
            'entries without a valid signature in the stream of accepted requests in Redis are skipped',
          )
        if (reported > 0)
          log.error({ requests: reported }, 'accepted requests are lost: see npm run recover -- status')
      })
    },
  )
}

/**
 * Compares the requests around each switch in bounded steps, which store their positions. Returns how many were
 * reported as lost, and how many were malformed.
 */
async function compareAll(
  sql: Sql,
  run: Run,
  stream: NonNullable<Queue['accepted']>,
  mustEnd: MustEnd,
): Promise<{ reported: number; malformed: number }> {
  let position = positionOf(run.position)
  const result = { reported: 0, malformed: 0 }
  while (!mustEnd()) {
    const next = await findUncomparedSwitch(sql, position.number)
    if (next === undefined) break
    const { requests, malformed, last } = await stream.read(position.after ?? next.from_ms, BATCH_SIZE)
    // The whole stream from there on is read: the order of its entries is not that of the times in them.
    const within = requests.filter(({ accepted_at }) => {
      const at = Date.parse(accepted_at)
      return at >= next.from_ms && at <= next.until_ms
    })
    position = last === null ? { number: next.number, after: null } : { number: position.number, after: last }
    const lost = await compareBatch(sql, run, { position, next, requests: within })
    if (lost === undefined) return result
    result.reported += lost
    result.malformed += malformed
  }
  await endRun(sql, run, { position, result, next_s: 0 })
  return result
}

/** Undefined if the lease of the run was lost: nothing was written. */
async function compareBatch(
  sql: Sql,
  run: Run,
  { position, next, requests }: { position: Position; next: UncomparedSwitch; requests: RecordedRequest[] },
): Promise<number | undefined> {
  return await sql.begin(async (tx) => {
    if (!(await renewRun(tx, run, position))) return undefined
    if (requests.length === 0) return 0
    const compared = requests.map((request) => ({ ...request, path: pathOfRoute(request.route) }))
    return await reportLostRequests(tx, next.number, compared)
  })
}

function positionOf(stored: unknown): Position {
  return positionSchema.safeParse(stored).data ?? { number: 0, after: null }
}
