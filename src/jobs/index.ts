// The registry of jobs: one object of jobs for each resource. A job without a handler does not compile.
import type { QueueName } from '#core/config/queues.ts'
import { aiTaskJobs } from './ai-tasks.ts'
import { deliveryJobs } from './deliveries.ts'
import type { CallDefinition } from './job.ts'
import { messageJobs } from './messages.ts'
import { notificationJobs } from './notifications.ts'
import { paymentJobs } from './payments.ts'
import { payoutJobs } from './payouts.ts'
import { refundJobs } from './refunds.ts'
import { topUpJobs } from './top-ups.ts'
import { verificationJobs } from './verifications.ts'

const JOBS = {
  ...paymentJobs,
  ...refundJobs,
  ...payoutJobs,
  ...topUpJobs,
  ...verificationJobs,
  ...aiTaskJobs,
  ...messageJobs,
  ...notificationJobs,
  ...deliveryJobs,
}

export type JobName = (typeof JOBS)[keyof typeof JOBS]['name']
type CallName = Extract<(typeof JOBS)[keyof typeof JOBS], { call: CallDefinition }>['name']
/** The resources with a job that calls a provider. */
export type CallingResource = CallName extends `${infer ResourceName}.${string}` ? ResourceName : never

/** The jobs that this version can perform. During a deployment another version may enqueue other jobs. */
export const JOB_NAMES: readonly JobName[] = Object.values(JOBS).map(({ name }) => name)

/** The job names of each queue. */
export const JOB_NAMES_OF: ReadonlyMap<QueueName, readonly JobName[]> = new Map(
  Array.from(
    Map.groupBy(Object.values(JOBS), ({ queue }) => queue),
    ([queue, jobs]) => [queue, jobs.map(({ name }) => name)],
  ),
)

/** The provider calls that this version knows, each with the name and queue of its job. */
export const CALLS: readonly ({ job: JobName; queue: QueueName } & CallDefinition)[] = Object.values(
  JOBS,
).flatMap(({ name, queue, call }) => (call === null ? [] : [{ job: name, queue, ...call }]))
