-- What a receiver answered may repeat what it was sent: it is erased with the data of the event.

-- No excerpt is kept of later answers either: an attempt under way was sent before, and a receiver may keep what it got.
alter table webhook_deliveries add column excerpts_erased boolean not null default false;
do $$
declare
  each record;
begin
  for each in
    select c.oid::regclass as name from pg_class c
    where c.relkind = 'r' and (c.oid in (select inhrelid from pg_inherits where inhparent = 'webhook_deliveries'::regclass))
  loop
    execute format('alter table %s alter column excerpts_erased set statistics 10', each.name);
  end loop;
end $$;

-- With a deleted customer goes what their verifications say of them, when all of the customer's own events are erased. What waits for a
-- call is erased again at its turn, because more may have been told by then. With each event go the excerpts of its deliveries.
create or replace function erase_next_events(most integer) returns integer language sql as $$
  with erasure as materialized (
    select * from erasures where turn_at <= clock_timestamp() order by turn_at limit 1 for update skip locked
  ), step as materialized (
    select e.* from erasure cross join lateral (
      select e.tenant_id, e.id, e.created_at from events e
      where e.tenant_id = erasure.tenant_id and e.subject_id = erasure.customer_id and e.type like 'customer.%'
        and (e.created_at, e.id) > (erasure.after_at, erasure.after_id)
      order by e.created_at, e.id limit most
    ) e
  ), erased as (
    update events e set data = e.data - array['name', 'email', 'phone', 'metadata'] from step
    where e.tenant_id = step.tenant_id and e.id = step.id and e.created_at = step.created_at and e.type <> 'customer.deleted'
  ), reached as (
    select created_at, id from step order by created_at desc, id desc limit 1
  ), kept as (
    update erasures r set turn_at = clock_timestamp(), after_at = reached.created_at, after_id = reached.id from erasure, reached
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) = most
  ), waits as (
    -- A call that is not over needs its request as it was sent; nothing else waits for it.
    update erasures r set turn_at = clock_timestamp() + interval '10 seconds' from erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and exists (
        select from verifications v join jobs j on j.tenant_id = v.tenant_id and j.subject_id = v.id
        where v.tenant_id = r.tenant_id and v.subject_id = r.customer_id and v.subject_type = 'customer'
          and j.finished_at is null)
    returning r.tenant_id
  ), done as (
    delete from erasures r using erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and not exists (select from waits)
  ), verified as materialized (
    select v.tenant_id, v.id from erasure join verifications v
      on v.tenant_id = erasure.tenant_id and v.subject_id = erasure.customer_id and v.subject_type = 'customer'
    where (select count(*) from step) < most
  ), forgotten as (
    update verifications v set metadata = '{}', return_url = null, decision_reason = null, updated_at = clock_timestamp() from verified
    where v.tenant_id = verified.tenant_id and v.id = verified.id
      and (v.metadata, v.return_url, v.decision_reason) is distinct from ('{}'::jsonb, null::text, null::text)
  ), told as (
    update events e set data = e.data - array['metadata', 'return_url', 'decision_reason'] from verified
    where e.tenant_id = verified.tenant_id and e.subject_id = verified.id and e.type like 'kyc.%'
      and e.data ?| array['metadata', 'return_url', 'decision_reason']
  ), asked as (
    update jobs j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.subject_id = verified.id and j.finished_at is not null
      and j.request ->> 'return_url' is not null
  ), asked_before as (
    update job_history j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.subject_id = verified.id and j.request ->> 'return_url' is not null
  ), echoed as (
    update webhook_deliveries d set excerpts_erased = true, attempts_log = (
      select coalesce(jsonb_agg(attempt || '{"response_excerpt": null}' order by nth), '[]')
      from jsonb_array_elements(d.attempts_log) with ordinality as logged(attempt, nth))
    from (
      select tenant_id, id from step
      union all
      select e.tenant_id, e.id from verified v join events e
        on e.tenant_id = v.tenant_id and e.subject_id = v.id and e.type like 'kyc.%'
    ) told_of
    where d.tenant_id = told_of.tenant_id and d.event_id = told_of.id and not d.excerpts_erased
  )
  select (select count(*)::integer from step) from erasure
$$;
do $$ begin
  execute format('alter function erase_next_events(integer) security definer set search_path = %I, pg_temp', current_schema());
end $$;
alter function erase_next_events(integer) set plan_cache_mode = 'force_custom_plan';
