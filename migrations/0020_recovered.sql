-- locks: customers, merchants, payments, refunds, recipients, payouts, top_ups, verifications, drifts

-- Rows that were lost when the database went back in time, and were made again from the provider's objects.

-- When the row was made again; null for a row that was never lost. Of a customer, merchant or recipient, nothing but
-- the id is known until its creation is requested again. Until then its key is `recovered:` and its id.
alter table customers add column recovered_at timestamptz;
alter table merchants add column recovered_at timestamptz;
alter table payments add column recovered_at timestamptz;
alter table refunds add column recovered_at timestamptz;
alter table recipients add column recovered_at timestamptz;
alter table payouts add column recovered_at timestamptz;
alter table top_ups add column recovered_at timestamptz;
alter table verifications add column recovered_at timestamptz;

-- orphan: an object of ours at the provider from which no row can be made. It has no row, so it has no `ours`. The
-- tenant is the system's if it is not known.
alter table drifts alter column ours drop not null;
alter table drifts drop constraint drifts_state_check;
alter table drifts add constraint drifts_state check (state in ('unknown', 'stale', 'differs', 'orphan')) not valid;
alter table drifts add constraint drifts_ours check ((state = 'orphan') = (ours is null)) not valid;

-- Fills in a customer, merchant or recipient of which only the id was known. Runs with the owner's rights: no process
-- may otherwise change the key of a row, or the destination of a recipient.
create function fill_party(party text, of_tenant uuid, party_id uuid, fields jsonb) returns boolean
language plpgsql security definer as $$
declare
  placeholder constant text := 'recovered:' || party_id;
begin
  if party = 'customer' then
    update customers c set idempotency_key = f.idempotency_key, name = f.name, email = f.email, phone = f.phone,
      external_id = f.external_id, metadata = coalesce(f.metadata, 'null'), updated_at = clock_timestamp()
    from jsonb_populate_record(null::customers, fields) f
    where c.tenant_id = of_tenant and c.id = party_id and c.idempotency_key = placeholder and c.recovered_at is not null
      and c.deleted_at is null;
  elsif party = 'merchant' then
    update merchants m set idempotency_key = f.idempotency_key, legal_name = f.legal_name,
      display_name = f.display_name, country = f.country, support_email = f.support_email, url = f.url,
      metadata = coalesce(f.metadata, 'null'), updated_at = clock_timestamp()
    from jsonb_populate_record(null::merchants, fields) f
    where m.tenant_id = of_tenant and m.id = party_id and m.idempotency_key = placeholder and m.recovered_at is not null;
  else
    update recipients r set idempotency_key = f.idempotency_key, name = f.name, email = f.email, type = f.type,
      currency = f.currency, country = f.country, destination = f.destination,
      metadata = coalesce(f.metadata, 'null'), updated_at = clock_timestamp()
    from jsonb_populate_record(null::recipients, fields) f
    where r.tenant_id = of_tenant and r.id = party_id and r.idempotency_key = placeholder and r.recovered_at is not null;
  end if;
  return found;
end $$;

-- A function with the owner's rights must not find a table of another schema. The rights are those of roles.sql.
revoke execute on function fill_party(text, uuid, uuid, jsonb) from public;
do $$
begin
  execute format('alter function fill_party(text, uuid, uuid, jsonb) set search_path = %I, pg_temp', current_schema());
end $$;

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attname = 'recovered_at'
  loop
    execute format('alter table %s alter column recovered_at set statistics 10', each.name);
  end loop;
end $$;
