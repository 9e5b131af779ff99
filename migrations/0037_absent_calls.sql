-- A call whose object is in none of the provider's lists never took effect. Operators resolve all unknown calls that a filter finds.

do $$
declare
  jobs text;
  each record;
begin
  foreach jobs in array array['jobs', 'job_history'] loop
    execute format($sql$
      alter table %I
        -- Fingerprints of the credentials under which the call of this generation was sent, separated by blanks.
        add column sent_with text,
        -- The provider's complete list showed no effect at this time, long enough after the last sending.
        add column absent_since timestamptz$sql$, jobs);
  end loop;
  for each in
    select c.oid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
      and (c.relname = 'jobs' or c.relname like 'job\_history%') and a.attname in ('sent_with', 'absent_since')
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

alter table operator_acts
  drop constraint operator_acts_resolve,
  add constraint operator_acts_resolve check (
    (act = 'resolve') = (took_effect is not null)
    and (act <> 'resolve' or job_id is not null or reference is null)
    and (reference is null or coalesce(took_effect, false)));
