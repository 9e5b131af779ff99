// The context of a job's mode. A job of a tenant in test mode gets the providers of test mode, and never live ones.
import { SYSTEM_TWIN_ID } from '#core/ids.ts'
import { replaceSentWith } from '#domain/jobs/accounts.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { WorkerContext } from './context.ts'
import { handlerOf } from './handlers/index.ts'
import { markAsTest } from './job-log.ts'

/** The context of a tenant's mode. */
async function contextOfTenant({ modes }: WorkerContext, tenant_id: string): Promise<WorkerContext> {
  // The notification decides: see `contextOfNotification`.
  if (tenant_id === SYSTEM_TWIN_ID) return modes.contextOf(false)
  const mode = await modes.modeOf(tenant_id)
  return mode === 'live' ? modes.contextOf(true) : await modes.testContextOf(tenant_id)
}

/** The context for an attempt at a job, and the job with the credentials of its mode. */
export async function enterMode(
  live: WorkerContext,
  job: ClaimedJob,
): Promise<{ context: WorkerContext; job: ClaimedJob }> {
  const context = await contextOfTenant(live, job.tenant_id)
  if (context.livemode) return { context, job }
  markAsTest()
  return { context, job: await withTestCredentials(live, context, job) }
}

/** A claim of many jobs does not know their modes: it records the credentials of live mode. */
async function withTestCredentials(
  live: WorkerContext,
  test: WorkerContext,
  job: ClaimedJob,
): Promise<ClaimedJob> {
  const { send_history } = job
  const provider = handlerOf(job.name).definition.call?.provider ?? ''
  const recorded = live.credentials[provider]?.fingerprint
  const used = send_history?.credentials?.split(' ') ?? []
  if (send_history === null || recorded === undefined || !used.includes(recorded)) return job
  const present = test.credentials[provider]?.fingerprint
  const earlier = used.filter((each) => each !== recorded && each !== present)
  const credentials = [...earlier, ...(present === undefined ? [] : [present])].join(' ') || null
  await replaceSentWith(live.sql, job, credentials)
  return { ...job, send_history: { ...send_history, credentials } }
}
