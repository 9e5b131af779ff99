-- What repeated requests and later reports fill in of rows that were made again, and which verifications count for
-- them: see 0020_recovered.sql.
-- locks: verifications

-- The destination of a recipient that was made again and whose destination is not known.
create function unknown_destination() returns text language sql immutable as $$ select 'ba_unknown' $$;
-- A name or address, and the country, of a party that was made again and of which only the id is known.
create function unknown_text() returns text language sql immutable as $$ select 'Not known' $$;
create function unknown_country() returns text language sql immutable as $$ select 'ZZ' $$;

-- The idempotency keys of a row that was made again and whose key is not known: the present one, which no caller can
-- send, and that of the previous version.
create function placeholder_keys(row_id uuid) returns text[] language sql immutable as $$
  select array['recovered ' || row_id, 'recovered:' || row_id]
$$;

-- A verification counts only for the content of the customer, merchant or recipient for which it was requested. After a
-- loss, another request may have created or filled in the party under the same id. A verification that was requested
-- for other content, or for content that is not known, is outdated, and so is one that was made again after a later
-- one: the party does not show it, it is not approved, and its session is canceled.
alter table verifications add column outdated boolean not null default false;
-- Of the content for which the verification was requested; also in the metadata of its session.
alter table verifications add column subject_fingerprint text;
-- Of a verification that was made again: when its session was created.
alter table verifications add column requested_at timestamptz;

-- The fingerprint of what a verification is about.
create function subject_fingerprint(party text, of_tenant uuid, party_id uuid) returns text language sql volatile as $$
  select encode(sha256(convert_to(verified::text, 'UTF8')), 'hex') from (
    select jsonb_build_array(c.id, c.name, c.email, c.phone, c.external_id) from customers c
    where party = 'customer' and c.tenant_id = of_tenant and c.id = party_id
    union all
    select jsonb_build_array(m.id, m.legal_name, m.display_name, m.country, m.support_email, m.url) from merchants m
    where party = 'merchant' and m.tenant_id = of_tenant and m.id = party_id
    union all
    select jsonb_build_array(r.id, r.name, r.email, r.type, r.currency, r.country, r.destination) from recipients r
    where party = 'recipient' and r.tenant_id = of_tenant and r.id = party_id
  ) subject (verified)
$$;

-- Decides whether a verification that is made again is outdated. Of a party of which only the id is known, fill_party
-- decides once the content is known.
create function check_recovered_verification() returns trigger language plpgsql security definer as $$
declare
  party record;
begin
  if tg_relid <> 'verifications'::regclass then
    raise exception 'check_recovered_verification() may only be a trigger of verifications'
      using errcode = 'insufficient_privilege';
  end if;
  execute format('select kyc_id,
      idempotency_key = any(placeholder_keys(id)) and recovered_at is not null as is_placeholder
    from %I where tenant_id = $1 and id = $2 for no key update', new.subject_type || 's')
  into party using new.tenant_id, new.subject_id;
  new.outdated := (not party.is_placeholder and new.subject_fingerprint is distinct from
      subject_fingerprint(new.subject_type, new.tenant_id, new.subject_id))
    or exists (
      select from verifications v
      where v.tenant_id = new.tenant_id and v.id = party.kyc_id
        and coalesce(coalesce(v.requested_at, v.created_at) > new.requested_at, true));
  return new;
end $$;
create trigger verifications_recovered before insert on verifications for each row
  when (new.recovered_at is not null) execute function check_recovered_verification();

-- As in 0008_verifications.sql; but of an outdated verification, a party shows only a rejection that it showed before.
create or replace function follow_verification() returns trigger language plpgsql security definer as $$
declare
  counts constant boolean := not new.outdated or new.decision is not distinct from 'rejected';
begin
  if tg_relid <> 'verifications'::regclass then
    raise exception 'follow_verification() may only be a trigger of verifications'
      using errcode = 'insufficient_privilege';
  end if;
  if tg_op = 'INSERT' and new.outdated then
    return null;
  end if;
  execute format('update %I set kyc_status = $1, kyc_id = $2, updated_at = clock_timestamp()
    where tenant_id = $3 and id = $4 and ($5 or kyc_id = $6)', new.subject_type || 's')
  using case when counts then new.status else 'none' end, case when counts then new.id end,
    new.tenant_id, new.subject_id, tg_op = 'INSERT', new.id;
  return null;
end $$;
create or replace trigger verifications_follow after update of status, outdated on verifications for each row
  when ((old.status, old.outdated) is distinct from (new.status, new.outdated)) execute function follow_verification();

-- Fills in a customer, merchant or recipient of which only the id was known. What was changed since it was made again
-- stays. A recipient whose destination is known from a payout keeps it: a request with another destination or currency
-- has other content than the lost one, and fills in nothing.
create or replace function fill_party(party text, of_tenant uuid, party_id uuid, fields jsonb) returns boolean
language plpgsql security definer as $$
declare
  placeholders constant text[] := placeholder_keys(party_id);
  filled boolean;
  fingerprint text;
begin
  -- A settlement locks the verification first too.
  perform from verifications v
  where v.tenant_id = of_tenant and v.subject_type = party and v.subject_id = party_id order by v.id for update;
  if party = 'customer' then
    update customers c set idempotency_key = f.idempotency_key, name = coalesce(c.name, f.name),
      email = coalesce(c.email, f.email), phone = coalesce(c.phone, f.phone),
      external_id = coalesce(c.external_id, f.external_id),
      metadata = coalesce(nullif(c.metadata, '{}'), f.metadata, 'null'), updated_at = clock_timestamp()
    from jsonb_populate_record(null::customers, fields) f
    where c.tenant_id = of_tenant and c.id = party_id and c.idempotency_key = any(placeholders)
      and c.recovered_at is not null and c.deleted_at is null;
  elsif party = 'merchant' then
    update merchants m set idempotency_key = f.idempotency_key,
      legal_name = coalesce(nullif(m.legal_name, unknown_text()), f.legal_name),
      display_name = coalesce(nullif(m.display_name, unknown_text()), f.display_name),
      country = coalesce(nullif(m.country, unknown_country()), f.country),
      support_email = coalesce(nullif(m.support_email, unknown_text()), f.support_email), url = coalesce(m.url, f.url),
      metadata = coalesce(nullif(m.metadata, '{}'), f.metadata, 'null'), updated_at = clock_timestamp()
    from jsonb_populate_record(null::merchants, fields) f
    where m.tenant_id = of_tenant and m.id = party_id and m.idempotency_key = any(placeholders)
      and m.recovered_at is not null;
  else
    update recipients r set idempotency_key = f.idempotency_key,
      name = coalesce(nullif(r.name, unknown_text()), f.name),
      email = coalesce(r.email, f.email), type = f.type, currency = f.currency, country = f.country,
      destination = f.destination, metadata = coalesce(nullif(r.metadata, '{}'), f.metadata, 'null'),
      updated_at = clock_timestamp()
    from jsonb_populate_record(null::recipients, fields) f
    where r.tenant_id = of_tenant and r.id = party_id and r.idempotency_key = any(placeholders)
      and r.recovered_at is not null
      and (r.destination = unknown_destination() or (r.destination, r.currency) = (f.destination, f.currency));
  end if;
  filled := found;
  if filled then
    fingerprint := subject_fingerprint(party, of_tenant, party_id);
    update verifications v set outdated = true, updated_at = clock_timestamp()
    where v.tenant_id = of_tenant and v.subject_type = party and v.subject_id = party_id and not v.outdated
      and v.subject_fingerprint is distinct from fingerprint;
  end if;
  return filled;
end $$;

-- Stores the destination of a recipient of which only the id was known: a verification of it was recovered before its
-- first payout.
create function complete_recipient(of_tenant uuid, recipient_id uuid, new_type text, new_currency text,
  new_destination text) returns void
language plpgsql security definer as $$
begin
  update recipients r set type = new_type, currency = new_currency, destination = new_destination,
    updated_at = clock_timestamp()
  where r.tenant_id = of_tenant and r.id = recipient_id and r.idempotency_key = any(placeholder_keys(recipient_id))
    and r.recovered_at is not null and r.destination = unknown_destination();
end $$;

-- A function with the owner's rights must not find a table of another schema. The rights are those of roles.sql.
do $$
declare
  each text;
begin
  foreach each in array array['check_recovered_verification()', 'follow_verification()',
    'fill_party(text, uuid, uuid, jsonb)', 'complete_recipient(uuid, uuid, text, text, text)'] loop
    execute format('alter function %s set search_path = %I, pg_temp', each, current_schema());
  end loop;
  foreach each in array array['unknown_destination()', 'unknown_text()', 'unknown_country()', 'placeholder_keys(uuid)',
    'subject_fingerprint(text, uuid, uuid)',
    'check_recovered_verification()', 'complete_recipient(uuid, uuid, text, text, text)'] loop
    execute format('revoke execute on function %s from public', each);
  end loop;
end $$;

-- See 0015_settings.sql.
alter table verifications alter column outdated set statistics 10, alter column subject_fingerprint set statistics 10,
  alter column requested_at set statistics 10;
