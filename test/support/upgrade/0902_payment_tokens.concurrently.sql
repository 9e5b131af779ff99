-- locks: payments row exclusive
do $$
declare
  position record;
  after_tenant uuid := '00000000-0000-0000-0000-000000000000';
  after_id uuid := after_tenant;
begin
  loop
    with batch as materialized (
      select tenant_id, id from payments where (tenant_id, id) > (after_tenant, after_id)
      order by tenant_id, id limit 500 for no key update
    ), filled as (
      update payments p set token = gen_random_uuid() from batch b
      where p.tenant_id = b.tenant_id and p.id = b.id and p.token is null
    )
    select tenant_id, id into position from batch order by tenant_id desc, id desc limit 1;
    exit when not found;
    after_tenant := position.tenant_id;
    after_id := position.id;
    commit;
  end loop;
end $$;
