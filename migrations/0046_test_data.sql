-- locks: ledger_transfers

-- Data of test mode is dropped after 90 days. The functions below run with the owner's rights, because no process may
-- delete such rows otherwise, and they delete only what belongs to test mode and is older than that.

-- A transfer is final, unless its tenant is in test mode.
create function refuse_delete() returns trigger language plpgsql as $$
begin
  if exists (select from tenants t where t.id = old.tenant_id and t.mode = 'test') then return old; end if;
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;
drop trigger ledger_transfers_are_final on ledger_transfers;
create trigger ledger_transfers_are_final before update or truncate on ledger_transfers
  for each statement execute function refuse_change();
create trigger ledger_transfers_are_kept before delete on ledger_transfers
  for each row execute function refuse_delete();

create function require_test_mode(tenant uuid) returns void language plpgsql as $$
begin
  if not exists (select from tenants t where t.id = tenant and t.mode = 'test') then
    raise exception '% is no tenant in test mode', tenant using errcode = 'insufficient_privilege';
  end if;
end $$;

-- Whether money is reserved for the payout with this id, or for a refund of the payment with it. Only the end of the
-- payout or refund frees the money.
create function has_reserved_money(tenant uuid, resource uuid) returns boolean language sql stable as $$
  select exists (select from payouts p where p.tenant_id = tenant and p.id = resource and p.open)
    or exists (select from refunds r where r.tenant_id = tenant and r.payment_id = resource and r.status = 'pending')
$$;

-- Drops up to `most` rows of the resource with this table, oldest first, with the transfers that they caused. A row to
-- which rows of other resources refer stays until these are dropped, and a row with an open job or with reserved money
-- until that ends. Returns the number of dropped rows.
create function drop_test_rows(resource_table text, of_tenant uuid, most integer) returns integer
language plpgsql security definer set plan_cache_mode = 'force_custom_plan' as $$
declare
  -- A table of the owner: the statements below run the triggers of whatever they delete from, with the owner's rights.
  target constant regclass := (
    select c.oid from pg_class c
    where c.relname = resource_table and c.relnamespace = current_schema()::regnamespace
      and c.relowner = current_user::regrole and c.relkind in ('r', 'p'));
  -- The row to which the jobs of a row belong: the payment of a refund or dispute.
  root text := 'id';
  refers text := '';
  parts text := '';
  dropped integer;
  each record;
begin
  perform require_test_mode(of_tenant);
  if target is null or 4 <> (
    select count(*) from pg_attribute a
    where a.attrelid = target and a.attname in ('tenant_id', 'id', 'created_at', 'updated_at') and not a.attisdropped
  ) then
    raise exception '% is not the table of a resource', resource_table using errcode = 'insufficient_privilege';
  end if;
  if resource_table in ('refunds', 'disputes') then root := 'payment_id'; end if;
  -- A referring table without a creation time has parts of the row, such as the attachments of a message.
  for each in
    select k.conrelid::regclass as name,
      exists (
        select from pg_attribute a
        where a.attrelid = k.conrelid and a.attname = 'created_at' and not a.attisdropped) as is_resource,
      (
        select string_agg(format('child.%I = parent.%I', child.attname, parent.attname), ' and ')
        from unnest(k.conkey, k.confkey) as pair(child_column, parent_column)
        join pg_attribute child on child.attrelid = k.conrelid and child.attnum = pair.child_column
        join pg_attribute parent on parent.attrelid = k.confrelid and parent.attnum = pair.parent_column
      ) as matches
    from pg_constraint k where k.contype = 'f' and k.confrelid = target and k.conparentid = 0
    order by k.conname
  loop
    if each.is_resource then
      refers := refers || format(' or exists (select from %s child where %s offset 0)', each.name, each.matches);
    else
      parts := parts || format(', %I as (delete from %s child using parent where %s)',
        'part_of_' || each.name::text, each.name, each.matches);
    end if;
  end loop;
  execute format($statement$
    with parent as (
      delete from %1$s r where r.tenant_id = $1 and r.id = any(array(
        select parent.id from %1$s parent
        where parent.tenant_id = $1 and parent.created_at < now() - interval '90 days' and not (false %2$s)
          and not exists (
            select from jobs j
            where j.tenant_id = $1 and j.resource_id = parent.%4$s and j.finished_at is null offset 0)
          and not has_reserved_money($1, parent.%4$s)
        order by parent.created_at limit $2))
      returning r.tenant_id, r.id
    ), transfer as (
      delete from ledger_transfers t using parent where t.tenant_id = parent.tenant_id and t.subject_id = parent.id
    ) %3$s
    select count(*)::integer from parent
    $statement$, target, refers, parts, root) using of_tenant, most into dropped;
  return dropped;
end $$;

-- Drops what belongs to no row of a resource, up to `most` rows of each kind: events, deliveries, drifts, and jobs.
-- Returns the highest number of one kind. A job that runs stays, and so does one that may free reserved money.
create function drop_test_history(of_tenant uuid, most integer) returns integer
language plpgsql security definer set plan_cache_mode = 'force_custom_plan' as $$
declare
  old_before constant timestamptz := now() - interval '90 days';
  dropped integer[];
begin
  perform require_test_mode(of_tenant);
  with entry as materialized (
    select f.sequence, f.event_id, f.created_at from feed_entries f
    where f.tenant_id = of_tenant and f.created_at < old_before order by f.sequence limit most
  ), dropped_entry as (
    delete from feed_entries f using entry e
    where f.tenant_id = of_tenant and f.sequence = e.sequence and f.created_at = e.created_at
  ), event as (
    delete from events v using entry e
    where v.sequenced and v.tenant_id = of_tenant and v.id = e.event_id and v.created_at = e.created_at
  ), delivery as (
    delete from webhook_deliveries d using entry e where d.tenant_id = of_tenant and d.event_id = e.event_id
  ), drift as (
    delete from drifts d where d.tenant_id = of_tenant and d.id = any(array(
      select o.id from drifts o where o.tenant_id = of_tenant and o.created_at < old_before order by o.created_at
      limit most))
    returning d.id
  ), job as (
    delete from jobs j where j.state <> 'running' and j.id = any(array(
      select o.id from jobs o
      where o.finished_at is null and o.created_at > '-infinity' and o.created_at < old_before
        and o.tenant_id = of_tenant and o.state <> 'running' and not has_reserved_money(of_tenant, o.resource_id)
      order by o.created_at, o.id limit most))
    returning j.id
  ), attempt as (
    delete from job_attempts a using job where a.tenant_id = of_tenant and a.job_id = job.id
  ), old_job as materialized (
    select h.id, h.finished_at from job_history h
    where h.tenant_id = of_tenant and h.finished_at < old_before order by h.finished_at limit most
  ), dropped_job as (
    delete from job_history h using old_job o where h.id = o.id and h.finished_at = o.finished_at
  ), old_attempt as (
    delete from job_attempt_history a using old_job o where a.job_id = o.id and a.finished_at = o.finished_at
  ), report as (
    delete from lost_requests l where l.tenant_id = of_tenant and l.created_at < old_before
  )
  select array[(select count(*) from entry), (select count(*) from drift), (select count(*) from job),
    (select count(*) from old_job)] into dropped;
  return (select max(each) from unnest(dropped) each);
end $$;

-- Drops up to `most` notifications of test mode that were never applied, with their jobs. Returns their number.
create function drop_test_notifications(most integer) returns integer
language plpgsql security definer set plan_cache_mode = 'force_custom_plan' as $$
declare
  dropped integer;
begin
  with old as materialized (
    select n.id from notifications n
    where n.received_at < now() - interval '90 days' and not n.livemode
      and not exists (select from jobs j where j.id = n.id and j.state = 'running' offset 0)
    order by n.received_at limit most
  ), job as (
    delete from jobs j using old where j.id = old.id and j.state <> 'running'
  ), attempt as (
    delete from job_attempts a using old where a.job_id = old.id
  ), notification as (
    delete from notifications n using old where n.id = old.id returning n.id
  )
  select count(*)::integer into dropped from notification;
  return dropped;
end $$;

-- See 0015_settings.sql.
do $$
declare
  each text;
begin
  foreach each in array array['refuse_delete()', 'require_test_mode(uuid)', 'has_reserved_money(uuid, uuid)',
    'drop_test_rows(text, uuid, integer)', 'drop_test_history(uuid, integer)', 'drop_test_notifications(integer)'
  ] loop
    execute format('alter function %s set search_path = %I, pg_temp', each, current_schema());
  end loop;
end $$;
