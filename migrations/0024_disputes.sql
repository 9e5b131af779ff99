-- Disputes: a buyer's bank asks for money back. They are made at the processor and imported; each belongs to a payment.

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
  -- What was posted of it: taken, and given back.
  amount_withdrawn_minor bigint not null default 0 check (amount_withdrawn_minor >= 0),
  amount_reinstated_minor bigint not null default 0 check (amount_reinstated_minor >= 0),
  evidence_due_by timestamptz,
  opened_at timestamptz not null,
  closed_at timestamptz,
  -- The events that told of it; each is told once, also of a dispute that is lost, won and lost again.
  told text[] not null check (told <@ array['disputed', 'dispute_won', 'dispute_lost', 'dispute_closed'] and 'disputed' = any(told)),
  -- Rises with each answer that is written, also one that confirms what is there. What the processor said is written only over the revision that was known before it was asked: its statuses go
  -- back and forth, so nothing else tells which of two answers is the newer.
  revision integer not null default 1,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint disputes_created_at unique (tenant_id, created_at),
  constraint disputes_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id),
  constraint disputes_closed check (case status when 'won' then closed_at is not null when 'lost' then closed_at is not null
    when 'warning' then true else closed_at is null end)
) with (fillfactor = 70);
create index disputes_payment on disputes (tenant_id, payment_id, created_at);
create index disputes_open on disputes (tenant_id, created_at) where closed_at is null;

-- The latest dispute of a payment as answers show it, written by the statement that writes the dispute: nearly no payment has one, and
-- reading payments must not look for it.
alter table payments add column dispute jsonb;

do $$
declare
  each record;
begin
  for each in
    select attname from pg_attribute where attrelid = 'disputes'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table disputes alter column %I set statistics 10', each.attname);
  end loop;
  alter table payments alter column dispute set statistics 10;
end $$;
