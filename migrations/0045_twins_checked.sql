-- locks: pauses share update exclusive, tenants
-- Two tenants may have one slug: a live one, and its twin. Commands of the previous release that create a tenant fail
-- from now on.
alter table tenants validate constraint tenants_mode;
alter table tenants validate constraint tenants_twin;
alter table tenants validate constraint tenants_twin_id_fkey;
alter table tenants drop constraint tenants_slug_key;

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

-- Jobs do not refer to tenants. A job of a tenant without a row counts as live: it would call the live providers.
create function refuse_tenant_delete() returns trigger language plpgsql as $$
begin
  if exists (select from jobs j where j.tenant_id = old.id and j.finished_at is null) then
    raise exception 'tenant % in test mode has open jobs', old.id using errcode = 'restrict_violation';
  end if;
  return old;
end $$;
create trigger tenants_keep_twin before delete on tenants for each row when (old.mode = 'test')
  execute function refuse_tenant_delete();

-- See 0015_settings.sql.
do $$
declare
  name text;
  each record;
begin
  foreach name in array array['pause_twin()', 'keep_twin_pause()', 'refuse_tenant_delete()'] loop
    execute format('alter function %s set search_path = %I, pg_temp', name, current_schema());
  end loop;
  for each in
    select attname as name from pg_attribute where attrelid = 'twin_pauses'::regclass and attnum > 0
  loop
    execute format('alter table twin_pauses alter column %I set statistics 10', each.name);
  end loop;
end $$;

-- Owns the jobs of notifications from test accounts, which then have shares of their own.
insert into tenants (id, slug, name, mode, twin_id)
select '00000000-0000-7000-8000-000000000001', slug, name, 'test', id from tenants
where id = '00000000-0000-7000-8000-000000000000';
