// Response types of /api/ops.
import type { Answers } from '../generated/answers.ts'
import { LIST_FILTERS } from '../generated/filters.ts'

export type PauseRow = Answers['GET /ops/pauses'][number]

export type QueuesAnswer = Answers['GET /ops/queues']
export type QueueRow = QueuesAnswer['queues'][number]
export type JobNamesAnswer = Answers['GET /ops/queues/{queue}/names']
export type JobNameRow = JobNamesAnswer['names'][number]
export type PercentileRow = QueueRow['wait']['last_5m']
export type SeriesAnswer = Answers['GET /ops/series']

export type TenantRow = Answers['GET /ops/tenants'][number]
export type SharesAnswer = Answers['GET /ops/shares']
export type ShareRow = SharesAnswer['tenants'][number]

export type JobsAnswer = Answers['GET /ops/jobs']
export type JobRow = JobsAnswer['items'][number]
export type JobDetails = Answers['GET /ops/jobs/{id}']
export type JobCount = Answers['GET /ops/jobs/count']

export type JobActRow = Answers['GET /ops/acts/{id}']
export type JobActKind = JobActRow['act']
export type JobActItemRow = Answers['GET /ops/acts/{id}/items'][number]

export type ScheduleRow = Answers['GET /ops/schedules'][number]
export type DriftRow = Answers['GET /ops/drifts'][number]
export type ProposalRow = Answers['GET /ops/proposals'][number]
export type ParkedRow = Answers['GET /ops/parked'][number]

export type RecoveryAnswer = Answers['GET /ops/recovery']
export type SwitchRow = Answers['GET /ops/switches'][number]
export type HeldRow = Answers['GET /ops/recovery/held'][number]

type ActState = NonNullable<JobCount['filter']>['state']
const ACTIONABLE: Record<ActState, true> = {
  open: true,
  parked: true,
  retrying: true,
  ready: true,
  running: true,
  unknown: true,
  discarded: true,
}
/** The states of jobs that acts can filter by. */
export const ACTIONABLE_STATES = Object.keys(ACTIONABLE)
export const QUEUE_NAMES: readonly string[] = LIST_FILTERS['/ops/jobs'].queue
