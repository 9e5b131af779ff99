-- Statements are planned as keyed look-ups and indexed walks whatever the statistics say, so a small sample is enough: with the
-- usual one, gathering statistics on tables that grow by the second took a fifth of the database's processor time, and each
-- new sample has every connection plan its statements anew.
do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;
alter table jobs reset (autovacuum_analyze_scale_factor);
