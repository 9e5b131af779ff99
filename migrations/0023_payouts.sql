-- Payouts: what a tenant pays out of its balance. While one is held its amount is reserved on the tenant's account.

create table payouts (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in ('pending', 'processing', 'paid', 'failed', 'canceled')),
  open boolean not null generated always as (status in ('pending', 'processing')) stored,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  recipient_id uuid not null,
  description text check (length(description) <= 1000),
  processor text not null,
  processor_reference text,
  -- The furthest that the processor is known to have come with it, whatever its status is here: a payout that was failed by hand can be
  -- paid all the same.
  processor_status text check (processor_status in ('processing', 'paid', 'failed', 'canceled')),
  -- What was posted of it: paid, and come back.
  paid_minor bigint not null default 0,
  returned_minor bigint not null default 0,
  out_minor bigint not null generated always as (paid_minor - returned_minor) stored,
  -- A call that creates it may have reached the processor. Null: certainly none has.
  call_started_at timestamptz,
  -- A cancellation is under way, or follows as soon as the processor has it.
  cancel_requested_at timestamptz,
  -- Its amount is reserved: while it is open, and after a failure by hand until it is known what became of a call that had begun. Else the
  -- same money could be asked for again before the processor has said that it paid.
  held boolean not null generated always as (status in ('pending', 'processing')
    or (status = 'failed' and call_started_at is not null and processor_status is null)) stored,
  arrival_date text check (arrival_date ~ '^\d{4}-\d{2}-\d{2}$'),
  failure jsonb,
  processing_at timestamptz,
  paid_at timestamptz,
  failed_at timestamptz,
  canceled_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint payouts_created_at unique (tenant_id, created_at),
  constraint payouts_idempotency unique (tenant_id, idempotency_key),
  constraint payouts_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, recipient_id) references recipients (tenant_id, id),
  constraint payouts_posted check (0 <= returned_minor and returned_minor <= paid_minor and paid_minor in (0, amount_minor)),
  constraint payouts_paid_is_posted check (status <> 'paid' or paid_minor = amount_minor),
  constraint payouts_open_is_not_posted check (status not in ('pending', 'processing') or paid_minor = 0),
  constraint payouts_failure check ((status = 'failed') = (failure is not null))
) with (fillfactor = 70);
create index payouts_recipient on payouts (tenant_id, recipient_id, created_at);
-- Also those that have ended here and not at the processor.
create index payouts_open on payouts (tenant_id, created_at) where open or processor_status = 'processing';

-- What tells apart the transfers of one kind of a subject, where there may be several: of what comes back of a payout, how much was posted
-- before; of a dispute, the processor's id of the movement. Each is posted once.
alter table ledger_transfers add column reference text not null default '',
  drop constraint ledger_transfers_once,
  add constraint ledger_transfers_once primary key (tenant_id, subject_id, kind, reference);
alter table ledger_transfers alter column reference set statistics 10;

do $$
declare
  each record;
begin
  for each in
    select attname from pg_attribute where attrelid = 'payouts'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table payouts alter column %I set statistics 10', each.attname);
  end loop;
end $$;
