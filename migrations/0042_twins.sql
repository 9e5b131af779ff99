-- locks: tenants, notifications, notification_history
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
  for each in
    select a.attrelid::regclass as name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attname = 'livemode'
  loop
    execute format('alter table %s alter column livemode set statistics 10', each.name);
  end loop;
end $$;
