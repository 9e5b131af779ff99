// The context of a job's mode. A job of a tenant in test mode gets the providers of test mode, and never live ones.
import { replaceSentWith } from '#domain/jobs/accounts.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { WorkerContext } from './context.ts'
import { retry, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { markAsTest } from './job-log.ts'

/** The context of a tenant's mode. */
async function contextOfTenant({ modes }: WorkerContext, tenant_id: string): Promise<WorkerContext> {
  return modes.contextOf((await modes.modeOf(tenant_id)) === 'live')
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

/**
 * The decision for a job whose provider test mode lacks: the job waits for a worker that has it. Undefined for any
 * other job.
 */
export function decideMissingProvider(
  { livemode, configured }: WorkerContext,
  job: ClaimedJob,
): Decision | undefined {
  const { call } = handlerOf(job.name).definition
  if (livemode || call === null || configured.has(call.provider)) return undefined
  const reason = `this worker has no provider "${call.provider}" for test mode`
  return retry(reason, { outcome: 'misconfigured', unsent: true, unanswered: true })
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
