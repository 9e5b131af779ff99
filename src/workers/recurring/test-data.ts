// Drops the data of tenants in test mode that is older than 90 days, one worker at a time.
import { z } from 'zod'
import { endRun, renewRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import { dropTestData, dropTestNotifications, listTestTenants } from '#domain/test-data.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from '../clock.ts'

const NAME = 'data of test mode'
const POLL_INTERVAL_MS = 60_000
/** What is a few hours older than 90 days disturbs nobody. */
const INTERVAL_S = 6 * 3600
const TENANTS_AT_ONCE = 100
/** The number of rows of each kind per statement, which take about 50 ms of the database's time. */
const BATCH_SIZE = 500

/** `after`: the last tenant whose data was dropped; null: the run begins with the first tenant. */
const positionSchema = z.object({ after: z.string().nullable() })

/** Starts the loop. As everywhere, nothing is dropped by its age while a switch of the database is not released. */
export function startTestDataRetention({ sql, log, database, idleness }: WorkerContext): Loop {
  return repeatWhileCurrent({ log, database }, NAME, idleness.interval(POLL_INTERVAL_MS), async (mustEnd) => {
    if (!database.isHeld()) await runIfDue(sql, NAME, (run) => dropAll({ sql, run, mustEnd }))
  })
}

async function dropAll({
  sql,
  run,
  mustEnd,
}: Pick<WorkerContext, 'sql'> & { run: Run; mustEnd: MustEnd }): Promise<void> {
  let { after } = positionSchema.safeParse(run.position).data ?? { after: null }
  const postpone = async () => void (await endRun(sql, run, { position: { after }, next_s: 0 }))
  while ((await dropTestNotifications(sql, BATCH_SIZE)) === BATCH_SIZE)
    if (mustEnd() || !(await renewRun(sql, run, { after }))) return await postpone()
  for (;;) {
    const tenants = await listTestTenants(sql, after, TENANTS_AT_ONCE)
    for (const tenant_id of tenants) {
      for (let more = true; more;) {
        more = await dropTestData(sql, tenant_id, BATCH_SIZE)
        if (mustEnd() || !(await renewRun(sql, run, { after }))) return await postpone()
      }
      after = tenant_id
    }
    if (tenants.length < TENANTS_AT_ONCE) break
  }
  await endRun(sql, run, { position: { after: null }, next_s: INTERVAL_S })
}
