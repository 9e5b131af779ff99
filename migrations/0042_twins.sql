-- locks: pauses share update exclusive, tenants, notifications, notification_history
-- A tenant has a twin for test mode: a tenant of its own with the same slug, whose records move no money. The mode of a
-- tenant never changes. Everything else of a twin belongs to it by `tenant_id`, like the rows of any tenant.
alter table tenants add column mode text not null default 'live', add column twin_id uuid;
alter table tenants
  add constraint tenants_mode check (mode in ('live', 'test')) not valid,
  -- `twin_id` of a tenant of test mode: its live tenant. The twin of the system's own tenant has this id.
  add constraint tenants_twin check ((mode = 'test') = (twin_id is not null)
    and (twin_id is distinct from '00000000-0000-7000-8000-000000000000'
      or id = '00000000-0000-7000-8000-000000000001')) not valid,
  add constraint tenants_twin_id_fkey foreign key (twin_id) references tenants (id) not valid;

-- The previous release knows no modes: it would make the calls of a twin with the live credentials. It claims no job
-- and no delivery of a paused tenant, and it reads these rows as pauses, because `pauses` without `only` includes them.
-- This release reads `only pauses`. A later one drops the table.
create table twin_pauses (
  primary key (tenant_id),
  constraint twin_pauses_queue check (queue is null),
  constraint twin_pauses_tenant foreign key (tenant_id) references tenants (id) on delete cascade
) inherits (pauses);
alter table twin_pauses alter column reason set default
  'A tenant in test mode: workers of this release would use the live credentials. Newer ones ignore the pause.';

-- No twin exists without its row, whoever creates it.
create function pause_twin() returns trigger language plpgsql security definer as $$
begin
  insert into twin_pauses (tenant_id) values (new.id);
  return null;
end $$;
create trigger tenants_pause_twin after insert on tenants for each row when (new.mode = 'test')
  execute function pause_twin();

-- An operator of the previous release cannot resume a twin: the row goes only with its tenant.
create function keep_twin_pause() returns trigger language plpgsql as $$
begin
  if exists (select from tenants t where t.id = old.tenant_id) then return null; end if;
  return old;
end $$;
create trigger twin_pauses_stay before delete on twin_pauses for each row execute function keep_twin_pause();

-- A notification belongs to no tenant until it is applied, so its mode is stored: that of the secret which verified it,
-- or of the account whose list contains it. A lookup that we request ourselves names its tenant instead.
alter table notifications add column livemode boolean not null default true;
alter table notification_history add column livemode boolean not null default true;

-- See 0015_settings.sql.
alter table tenants alter column mode set statistics 10, alter column twin_id set statistics 10;
do $$
declare
  each record;
begin
  execute format('alter function pause_twin() set search_path = %I, pg_temp', current_schema());
  for each in
    select a.attrelid::regclass as name, a.attname as column_name
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
      and (a.attname = 'livemode' or c.relname = 'twin_pauses' and a.attnum > 0)
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;
