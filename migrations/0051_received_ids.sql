-- An SMS that somebody sent us has no idempotency key: nobody made it with one, and a key is its tenant's to use. The
-- provider's id of it stands where that of other messages does.
alter table messages alter column idempotency_key drop not null;
-- Where several tenants got one, the first keeps the id: it is unique.
update messages m set idempotency_key = null, provider_reference = first.reference
from (
  select tenant_id, id, case when row_number() over (partition by provider, idempotency_key order by created_at, id) = 1
    and not exists (
      select from messages o where o.provider = r.provider and o.provider_reference = r.idempotency_key)
    then idempotency_key end as reference
  from messages r where status = 'received'
) first
where m.tenant_id = first.tenant_id and m.id = first.id;
alter table messages add constraint messages_key check (idempotency_key is not null or status = 'received');
