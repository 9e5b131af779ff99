-- Balances follow the entries of the ledger and of no other table: whoever could put this trigger on a table of theirs moved them.
create or replace function post_entries() returns trigger language plpgsql security definer as $$
begin
  if tg_relid <> 'ledger_entries'::regclass then
    raise exception 'post_entries() serves ledger_entries alone' using errcode = 'insufficient_privilege';
  end if;
  if exists (select from posted group by tenant_id, transaction_id, currency having sum(amount_minor) <> 0) then
    raise exception 'a ledger transaction does not sum to zero' using errcode = 'check_violation';
  end if;
  -- `offset 0` keeps it a look-up for each entry: as an anti-join, planned while the table is empty, it would scan for ever.
  if exists (
    select from posted p left join lateral (
      select true as found from ledger_transactions t where t.tenant_id = p.tenant_id and t.id = p.transaction_id offset 0
    ) t on true
    where t.found is null
  ) then
    raise exception 'a ledger entry belongs to no transaction' using errcode = 'foreign_key_violation';
  end if;
  insert into ledger_accounts as a (tenant_id, currency, name, balance_minor)
    select tenant_id, currency, account, sum(amount_minor) from posted
    group by tenant_id, currency, account order by tenant_id, currency, account
    on conflict (tenant_id, currency, name) do update set balance_minor = a.balance_minor + excluded.balance_minor;
  return null;
end $$;
do $$
begin
  execute format('alter function post_entries() set search_path = %I, pg_temp', current_schema());
end $$;
