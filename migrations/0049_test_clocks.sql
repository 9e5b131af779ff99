-- locks: tenants share row exclusive
-- The clock of a tenant in test mode, which the tenant moves forward. Deadlines of the tenant are times of its clock.
-- All other times are real: creation, leases, timeouts, signatures and the expiry of keys. Claims do not know this
-- clock: a worker makes due rows due by the real time. A tenant without a row has the real time.
create table test_clocks (
  tenant_id uuid primary key,
  -- How far the clock is ahead of the real time. It only grows.
  clock_offset interval not null default '0',
  -- The time to which the clock moves. Null: the clock has arrived.
  advance_to timestamptz,
  -- When the clock last moved, or began to: a step waits for the work of the previous step.
  moved_at timestamptz not null default now(),
  -- The number of steps since the clock began to move.
  steps integer not null default 0,
  -- The number of deadlines until `advance_to` that are ahead of the clock; null before they are counted.
  remaining integer,
  -- No deadline of a payment or a verification is earlier than this time of the clock, so a pass need not read them
  -- before. Null: that is not known.
  resources_due_at timestamptz,
  constraint test_clocks_tenant foreign key (tenant_id) references tenants (id),
  constraint test_clocks_offset check (clock_offset between interval '0' and interval '366 days')
) with (fillfactor = 50);

-- Deadlines of live tenants are real times: no process can give them a clock.
create function refuse_live_clock() returns trigger language plpgsql security definer as $$
begin
  if tg_relid <> 'test_clocks'::regclass then
    raise exception 'refuse_live_clock() may only be a trigger of test_clocks' using errcode = 'insufficient_privilege';
  end if;
  perform require_test_mode(new.tenant_id);
  return new;
end $$;
create trigger test_clocks_are_of_test_mode before insert or update of tenant_id on test_clocks
  for each row execute function refuse_live_clock();

-- The offset of a clock since a time. So a deadline that is a delay after a stored time, such as `updated_at`, has the
-- offset that the clock had at that time.
create table test_clock_steps (
  tenant_id uuid not null,
  at timestamptz not null,
  clock_offset interval not null,
  primary key (tenant_id, at),
  constraint test_clock_steps_clock foreign key (tenant_id) references test_clocks (tenant_id)
);

-- How far the clock of a tenant is ahead of the real time: zero, unless the tenant has moved its clock.
create function clock_offset(tenant_id uuid) returns interval language sql stable as $$
  select coalesce((select c.clock_offset from test_clocks c where c.tenant_id = $1), interval '0')
$$;

-- As `clock_offset`, at an earlier time.
create function clock_offset_at(tenant_id uuid, moment timestamptz) returns interval language sql stable as $$
  select coalesce((
    select s.clock_offset from test_clock_steps s where s.tenant_id = $1 and s.at <= $2 order by s.at desc limit 1
  ), interval '0')
$$;

-- The deadline that is a delay from now, by the clock of a tenant. Without a delay it is the real time, so that claims
-- need not wait for the worker that moves clocks.
create function due_after(tenant_id uuid, delay interval) returns timestamptz language sql stable as $$
  select case when $2 > interval '0' then now() + $2 + clock_offset($1) else now() + $2 end
$$;

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  execute format('alter function refuse_live_clock() set search_path = %I, pg_temp', current_schema());
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('test_clocks'::regclass, 'test_clock_steps'::regclass) and attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
end $$;
