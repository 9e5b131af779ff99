-- A deleted customer's earlier events tell what was personal. There may be any number of them, so they are erased in steps.

create table erasures (
  tenant_id uuid not null,
  customer_id uuid not null,
  -- Whose turn is next: who had a step goes behind the others.
  turn_at timestamptz not null default clock_timestamp(),
  -- The last event that was erased.
  after_at timestamptz not null default '-infinity',
  after_id uuid not null default '00000000-0000-0000-0000-000000000000',
  primary key (tenant_id, customer_id),
  foreign key (tenant_id, customer_id) references customers (tenant_id, id)
);
create index erasures_turn on erasures (turn_at);

-- A step begins where the last one ended.
create index events_of_customers on events (tenant_id, subject_id, created_at, id) where type like 'customer.%';

-- Erases what the next `most` events of a deleted customer tell and answers how many there were; null when there is nothing to erase.
create function erase_next_events(most integer) returns integer language sql as $$
  with erasure as materialized (
    select * from erasures order by turn_at limit 1 for update skip locked
  ), step as materialized (
    select e.* from erasure cross join lateral (
      select e.tenant_id, e.id, e.created_at from events e
      where e.tenant_id = erasure.tenant_id and e.subject_id = erasure.customer_id and e.type like 'customer.%'
        and (e.created_at, e.id) > (erasure.after_at, erasure.after_id)
      order by e.created_at, e.id limit most
    ) e
  ), erased as (
    update events e set data = e.data - array['name', 'email', 'phone', 'metadata'] from step
    where e.tenant_id = step.tenant_id and e.id = step.id and e.created_at = step.created_at and e.type <> 'customer.deleted'
  ), reached as (
    select created_at, id from step order by created_at desc, id desc limit 1
  ), kept as (
    update erasures r set turn_at = clock_timestamp(), after_at = reached.created_at, after_id = reached.id from erasure, reached
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) = most
  ), done as (
    delete from erasures r using erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
  )
  select (select count(*)::integer from step) from erasure
$$;

-- With the owner's rights: no process may change an event otherwise. Who may call it says roles.sql.
do $$ begin
  execute format('alter function erase_next_events(integer) security definer set search_path = %I, pg_temp', current_schema());
end $$;
alter function erase_next_events(integer) set plan_cache_mode = 'force_custom_plan';
revoke all on function erase_next_events(integer) from public;
alter table erasures alter column turn_at set statistics 10, alter column after_at set statistics 10, alter column after_id set statistics 10,
  alter column tenant_id set statistics 10, alter column customer_id set statistics 10;
