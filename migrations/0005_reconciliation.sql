-- Work that comes again by the clock, and where our books and the processor's are known to differ.

-- One row for each kind: one worker at a time does it, from where the last one got to.
create table recurring_work (
  name text primary key,
  due_at timestamptz not null,
  lease_token uuid,
  lease_until timestamptz,
  -- Where the next turn begins.
  position jsonb,
  -- What the last turn found.
  result jsonb,
  started_at timestamptz,
  ended_at timestamptz
);

create table drifts (
  tenant_id uuid not null,
  id uuid not null,
  subject text not null check (subject in ('payment', 'refund')),
  subject_id uuid not null,
  payment_id uuid not null,
  -- unknown: nobody knows whether a call took effect; stale: under way for too long; differs: both are settled, otherwise.
  state text not null check (state in ('unknown', 'stale', 'differs')),
  ours jsonb not null,
  -- Null until the processor has told.
  theirs jsonb,
  detail text,
  since timestamptz not null,
  checked_at timestamptz,
  created_at timestamptz not null default unique_now(),
  mended_at timestamptz,
  primary key (tenant_id, id),
  constraint drifts_created_at unique (tenant_id, created_at),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id)
);
create unique index drifts_open on drifts (tenant_id, subject, subject_id) where mended_at is null;
create index drifts_listed on drifts (tenant_id, created_at) where mended_at is null;

-- For the reconciler; the payments under way are found among the open ones.
create index refunds_pending on refunds (tenant_id, created_at) where status = 'pending';
-- For the audit of what came lately.
create index notifications_received_at on notifications using brin (received_at);
