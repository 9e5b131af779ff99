-- What repeated requests and later reports fill in of rows that were made again: see 0020_recovered.sql.

-- Fills in a customer, merchant or recipient of which only the id was known. A recipient whose destination is known from
-- a payout keeps it: a request with another destination or currency has other content than the lost one, and fills in
-- nothing. If the destination was unknown, nothing shows that an approval was for the one in the request.
create or replace function fill_party(party text, of_tenant uuid, party_id uuid, fields jsonb) returns boolean
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
      metadata = coalesce(f.metadata, 'null'), updated_at = clock_timestamp(),
      kyc_status = case when r.destination = 'ba_unknown' and r.kyc_status = 'approved' then 'none' else r.kyc_status end,
      kyc_id = case when r.destination = 'ba_unknown' and r.kyc_status = 'approved' then null else r.kyc_id end
    from jsonb_populate_record(null::recipients, fields) f
    where r.tenant_id = of_tenant and r.id = party_id and r.idempotency_key = placeholder and r.recovered_at is not null
      and (r.destination = 'ba_unknown' or (r.destination, r.currency) = (f.destination, f.currency));
  end if;
  return found;
end $$;

-- Stores the destination of a recipient of which only the id was known: a verification of it was taken up before its
-- first payout.
create function complete_recipient(of_tenant uuid, recipient_id uuid, new_type text, new_currency text,
  new_destination text) returns void
language plpgsql security definer as $$
begin
  update recipients r set type = new_type, currency = new_currency, destination = new_destination,
    updated_at = clock_timestamp()
  where r.tenant_id = of_tenant and r.id = recipient_id and r.idempotency_key = 'recovered:' || recipient_id
    and r.recovered_at is not null and r.destination = 'ba_unknown';
end $$;

-- A function with the owner's rights must not find a table of another schema. The rights are those of roles.sql.
revoke execute on function complete_recipient(uuid, uuid, text, text, text) from public;
do $$
begin
  execute format('alter function fill_party(text, uuid, uuid, jsonb) set search_path = %I, pg_temp', current_schema());
  execute format('alter function complete_recipient(uuid, uuid, text, text, text) set search_path = %I, pg_temp',
    current_schema());
end $$;
