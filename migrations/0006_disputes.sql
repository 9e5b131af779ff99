-- Disputes: a buyer's bank reclaims a payment. They originate at the processor and are imported.

create table disputes (
  tenant_id uuid not null,
  id uuid not null,
  payment_id uuid not null,
  processor text not null,
  processor_reference text not null,
  status text not null check (status in ('needs_response', 'under_review', 'won', 'lost', 'warning')),
  reason text,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  -- The amounts posted: withdrawn, and reinstated.
  amount_withdrawn_minor bigint not null default 0 check (amount_withdrawn_minor >= 0),
  amount_reinstated_minor bigint not null default 0 check (amount_reinstated_minor >= 0),
  evidence_due_by timestamptz,
  opened_at timestamptz not null,
  closed_at timestamptz,
  -- The types of the events that were written for the dispute. Each type is written once, even if the dispute is lost,
  -- won and lost again.
  announced text[] not null
    check (announced <@ array['disputed', 'dispute_won', 'dispute_lost', 'dispute_closed'] and 'disputed' = any(announced)),
  -- Incremented by each written answer of the processor, even without a change. An answer is written only if the
  -- revision is still the one that was read before the request: statuses move back and forth, so nothing else shows
  -- which answer is newer.
  revision integer not null default 1,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint disputes_created_at unique (tenant_id, created_at),
  constraint disputes_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id),
  constraint disputes_closed check (case status when 'won' then closed_at is not null
    when 'lost' then closed_at is not null
    when 'warning' then true else closed_at is null end)
) with (fillfactor = 70);
create index disputes_payment on disputes (tenant_id, payment_id, created_at);
create index disputes_open on disputes (tenant_id, created_at) where closed_at is null;
create index disputes_to_answer on disputes (tenant_id, opened_at) where status = 'needs_response';
