-- Settings for all tables and functions.

-- A small sample for statistics is enough: whatever the statistics are, statements are planned as keyed lookups and
-- index scans. On tables that grow by the second, samples of the default size took a fifth of the database's processor
-- time, and each new sample makes every connection plan its statements anew. If a single column lacks this setting, a
-- sample of its table reads ten times as much; a test checks every column.
do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

-- Functions with the owner's rights resolve names in this schema only: otherwise a caller could make them use a table
-- of its own with the same name.
do $$
declare
  each text;
begin
  foreach each in array array[
    'follow_verification()', 'write_subscription()', 'sequence_events(integer)', 'make_next_partition()',
    'drop_next_partition(text, integer)', 'count_strays()', 'move_finished_jobs(timestamptz, uuid, integer)',
    'move_notifications(timestamptz, uuid, integer)', 'erase_next_events(integer)', 'append_audit_entry(jsonb)',
    'limit_processes()'
  ] loop
    execute format('alter function %s set search_path = %I, pg_temp', each, current_schema());
  end loop;
end $$;
