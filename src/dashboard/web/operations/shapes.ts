// What /api/ops answers. These routes are not of the API, so the SDK has no types of them.

export type PauseRow = {
  queue: string | null
  tenant: string | null
  tenant_id: string | null
  reason: string | null
  who: string | null
  since: string
}

export type PercentileRow = { p50_ms: number | null; p95_ms: number | null; p99_ms: number | null }

type Stages = { due: number; later: number; running: number; unknown: number; parked: number }

export type QueueRow = Stages & {
  queue: string
  oldest_due_s: number
  in_per_s_1m: number
  out_per_s_1m: number
  in_per_s_5m: number
  out_per_s_5m: number
  wait: { last_5m: PercentileRow; last_1h: PercentileRow }
  run: { last_5m: PercentileRow; last_1h: PercentileRow }
  failed_1h: number
  out_by_minute: number[]
  paused: boolean
  paused_tenants: number
  as_of: string | null
}
export type QueuesAnswer = { queues: QueueRow[]; as_of: string | null }

export type JobNameRow = Stages & {
  name: string
  in: number
  out: number
  succeeded: number
  failed: number
  discarded: number
  retries: number
  wait: PercentileRow
  run: PercentileRow
  oldest_due_s: number
}

export type SeriesAnswer = {
  step_s: number
  points: {
    at: string
    in: number
    out: number
    failed: number
    due: number | null
    oldest_due_s: number | null
    wait: PercentileRow
    run: PercentileRow
  }[]
  as_of: string | null
}

export type TenantRow = { id: string; slug: string; name: string }
export type ShareRow = {
  tenant_id: string | null
  slug: string | null
  finished: number
  run_ms: number
  share: number
}
export type SharesAnswer = { finished: number; run_ms: number; tenants: ShareRow[]; as_of: string | null }

export type JobRow = {
  id: string
  tenant: string | null
  tenant_id: string
  queue: string
  name: string
  state: string
  parked: boolean
  subject: string | null
  subject_id: string | null
  attempt: number
  run_at: string | null
  unknown_since: string | null
  first_sent_at: string | null
  error: string | null
  created_at: string
  finished_at: string | null
}

export type JobDetails = JobRow & {
  payload: unknown
  max_attempts: number
  request_id: string | null
  started_at: string | null
  worker: string | null
  lease_until: string | null
  works_on: {
    noun: string
    id: string
    status: string | null
    amount_minor: number | null
    currency: string | null
    provider_reference: string | null
    idempotency_key: string | null
  } | null
  attempts: {
    attempt: number
    worker: string
    started_at: string
    ended_at: string | null
    outcome: string | null
    error: string | null
  }[]
  calls: {
    generation: number
    key: string
    operation: string
    first_sent_at: string | null
    last_sent_at: string | null
    refused_since: string | null
    outcome: string | null
    provider_reference: string | null
  }[]
  interventions: { at: string; who: string; act: string; reason: string; before: string; after: string }[]
}

export type JobActKind = 'retry' | 'discard' | 'run_now'
export type JobActRow = {
  id: string
  act: JobActKind
  job_id: string | null
  filter: Record<string, string> | null
  who: string
  reason: string
  state: 'asked' | 'running' | 'done' | 'canceled' | 'failed'
  matched: number
  found: number
  done: number
  refused: number
  more: boolean
  error: string | null
  canceled_by: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
}
export type JobActItemRow = {
  job_id: string
  at: string | null
  before: string | null
  after: string | null
  look_only: boolean
  refused: string | null
}
export type JobCount = { count: number; more: boolean; filter: Record<string, string> | null }

export type DriftRow = {
  id: string
  tenant_id: string
  tenant: string
  subject: string
  subject_id: string
  payment_id: string | null
  state: string
  ours: Record<string, unknown>
  theirs: Record<string, unknown> | null
  detail: string | null
  since: string
  age_s: number
  checked_at: string | null
  created_at: string
}
export type ParkedRow = {
  id: string
  provider: string
  event_id: string
  kind: string
  object_id: string | null
  reason: string | null
  waits_for: string | null
  tenant: string | null
  subject: string | null
  subject_id: string | null
  received_at: string
  parked_at: string
  age_s: number
}

export const QUEUE_NAMES = [
  'payments',
  'payouts',
  'compliance',
  'messages',
  'notifications',
  'deliveries',
  'ai',
]
