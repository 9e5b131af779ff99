-- Top-ups: money that a tenant brings into its own balance.

create table top_ups (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed', 'canceled')),
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  -- Masked. The token itself is in the request of the job, sealed, until that is over.
  source text check (length(source) <= 64),
  description text check (length(description) <= 1000),
  processor text not null,
  processor_reference text,
  -- What was posted of it: come, and taken back. One that has failed here can come all the same.
  came_minor bigint not null default 0,
  reversed_minor bigint not null default 0,
  failure jsonb,
  succeeded_at timestamptz,
  failed_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint top_ups_created_at unique (tenant_id, created_at),
  constraint top_ups_idempotency unique (tenant_id, idempotency_key),
  constraint top_ups_processor_reference unique (processor, processor_reference),
  constraint top_ups_posted check (came_minor in (0, amount_minor) and reversed_minor in (0, came_minor)),
  constraint top_ups_pending_is_not_posted check (status <> 'pending' or came_minor = 0),
  constraint top_ups_succeeded_is_posted check (succeeded_at is null or came_minor = amount_minor),
  -- One that failed after it had succeeded was reversed.
  constraint top_ups_succeeded check (case status when 'succeeded' then succeeded_at is not null
    when 'failed' then true else succeeded_at is null end),
  constraint top_ups_failure check ((status = 'failed') = (failure is not null) and (status = 'failed') = (failed_at is not null))
) with (fillfactor = 70);
create index top_ups_open on top_ups (tenant_id, created_at) where status = 'pending';

do $$
declare
  each record;
begin
  for each in
    select attname from pg_attribute where attrelid = 'top_ups'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table top_ups alter column %I set statistics 10', each.attname);
  end loop;
end $$;
