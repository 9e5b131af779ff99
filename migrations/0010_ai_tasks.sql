-- AI tasks. A prompt may be personal: it is stored only in the request of its job, sealed, until the job
-- finishes.

create table ai_tasks (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  kind text not null check (kind in ('generate', 'classify', 'extract')),
  status text not null default 'queued' check (status in ('queued', 'running', 'succeeded', 'failed', 'canceled')),
  model text check (length(model) between 1 and 255),
  max_output_tokens integer check (max_output_tokens between 1 and 32768),
  output jsonb,
  -- The task had an output, which was erased after its retention period.
  output_erased boolean not null default false,
  usage jsonb,
  failure jsonb,
  attempts integer not null default 0 check (attempts >= 0),
  started_at timestamptz,
  finished_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint ai_tasks_created_at unique (tenant_id, created_at),
  constraint ai_tasks_idempotency unique (tenant_id, idempotency_key),
  constraint ai_tasks_output check ((status = 'succeeded') = (output is not null or output_erased)),
  constraint ai_tasks_failure check ((status = 'failed') = (failure is not null)),
  constraint ai_tasks_running check (status <> 'running' or (attempts > 0 and started_at is not null)),
  constraint ai_tasks_finished check ((status in ('succeeded', 'failed', 'canceled')) = (finished_at is not null))
);
create index ai_tasks_open on ai_tasks (tenant_id, created_at) where status in ('queued', 'running');
-- Few tasks fail; the index serves their list.
create index ai_tasks_failed on ai_tasks (tenant_id, created_at) where status = 'failed';
create index ai_tasks_output on ai_tasks (finished_at) where output is not null;
