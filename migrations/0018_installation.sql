-- The id of this installation. It marks all objects at providers, so that objects of another installation in the same
-- account are not taken for ours. It is drawn once and kept when the database is restored elsewhere.

create table installation (
  id uuid not null default gen_random_uuid(),
  is_only boolean primary key default true check (is_only)
);
insert into installation default values;
create trigger installation_is_final before update or delete or truncate on installation
  for each statement execute function refuse_change();

-- See 0015_settings.sql.
do $$
declare
  each text;
begin
  for each in select attname from pg_attribute where attrelid = 'installation'::regclass and attnum > 0 loop
    execute format('alter table installation alter column %I set statistics 10', each);
  end loop;
end $$;
