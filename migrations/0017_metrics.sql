-- Operations of a provider that currently get no answer from it: one row for each worker. The provider may answer others.
create table operation_outages (
  provider text not null,
  operation text not null,
  worker text not null,
  since timestamptz not null,
  -- When the last call failed.
  failed_at timestamptz not null,
  outcome text not null,
  -- Whether the worker has got answers of other operations since.
  is_partial boolean not null,
  seen_at timestamptz not null,
  primary key (provider, operation, worker)
) with (fillfactor = 50);

-- See 0015_settings.sql.
do $$
declare
  each text;
begin
  for each in select attname from pg_attribute where attrelid = 'operation_outages'::regclass and attnum > 0 loop
    execute format('alter table operation_outages alter column %I set statistics 10', each);
  end loop;
end $$;
