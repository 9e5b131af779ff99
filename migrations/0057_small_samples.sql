-- Every column again, as 0004 did: one column that is missing makes gathering statistics on its table read ten times as much, and
-- `jobs.failing_since` was missing. A test holds this for columns to come. The sample of events stays large, by `sequenced`: a type that
-- is rare must be seen in it, or the feed of that type is planned as if there were only one.
do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
      and a.attname <> 'sequenced' and a.attstattarget is distinct from 10
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;
