-- The feed of a type that no sample of a partition has was read in the order of all sequences: planned as if there were one type. How
-- many types there are is said here, so the sample of events is as small as any other.
create or replace function make_next_partition() returns text language plpgsql as $$
declare
  each record;
begin
  for each in
    select parent.name as parent, week as from_time, week + interval '7 days' as to_time,
      parent.name || to_char(week, '_YYYYMMDD') as name
    from unnest(array['sequenced_events', 'webhook_deliveries', 'job_history', 'job_attempt_history', 'notification_history']) parent(name)
    cross join generate_series(date_trunc('week', now()), now() + interval '28 days', interval '7 days') week
    where not exists (
      select from partitions p where p.parent = parent.name and not p.is_default
        and coalesce(p.from_time, '-infinity') < week + interval '7 days' and coalesce(p.to_time, 'infinity') > week)
    order by week, parent.name
  loop
    begin
      execute format('create table %I (like %I including defaults including constraints)', each.name, each.parent);
      if each.parent = 'webhook_deliveries' then
        execute format('alter table %I set (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05)', each.name);
      end if;
      execute (
        select string_agg(format('alter table %I alter column %I set statistics 10', each.name, attname), ';') from pg_attribute
        where attrelid = each.name::regclass and attnum > 0 and not attisdropped);
      if each.parent = 'sequenced_events' then
        execute format('alter table %I alter column type set (n_distinct = 100)', each.name);
      end if;
      execute format('alter table %I attach partition %I for values from (%L) to (%L)',
        each.parent, each.name, each.from_time, each.to_time);
      return each.name;
    exception
      -- Not now; or somebody else makes it; or rows of that time are in the default partition, and stay there.
      when lock_not_available or duplicate_table or unique_violation or check_violation then continue;
    end;
  end loop;
  return null;
end $$;

-- A function that is replaced keeps its owner and who may call it, not its settings.
alter function make_next_partition() set timezone = 'UTC';
alter function make_next_partition() set lock_timeout = '50ms';
do $$
declare
  each record;
begin
  execute format('alter function make_next_partition() security definer set search_path = %I, pg_temp', current_schema());
  for each in
    select i.inhrelid::regclass as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'sequenced_events'::regclass and c.relkind = 'r'
  loop
    execute format('alter table %s alter column type set (n_distinct = 100)', each.name);
    execute format('alter table %s alter column sequenced set statistics 10', each.name);
  end loop;
  alter table unsequenced_events alter column sequenced set statistics 10;
end $$;
