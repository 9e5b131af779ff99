-- The ledger is transfers: one row moves one amount from an account to another, so it balances by construction. What was posted as a
-- transaction with two entries becomes one; balances stay as they are. Processes must be stopped: earlier versions cannot post here.

lock table ledger_transactions, ledger_entries, ledger_accounts in exclusive mode;

-- Only books that hold are taken over. No version has posted anything but pairs of entries.
do $$
declare
  wrong record;
begin
  select t.tenant_id, t.id into wrong from ledger_transactions t
  left join lateral (
    select count(*) as entries, count(distinct e.currency) as currencies, sum(e.amount_minor) as sum from ledger_entries e
    where e.tenant_id = t.tenant_id and e.transaction_id = t.id
  ) e on true
  where e.entries <> 2 or e.currencies <> 1 or e.sum <> 0
  limit 1;
  if found then
    raise exception 'The ledger transaction % of tenant % is not a pair of entries that balance. Nothing was migrated: see npm run audit of the version before.',
      wrong.id, wrong.tenant_id using errcode = 'check_violation';
  end if;
  select tenant_id, transaction_id into wrong from ledger_entries e
  where not exists (select from ledger_transactions t where t.tenant_id = e.tenant_id and t.id = e.transaction_id)
  limit 1;
  if found then
    raise exception 'A ledger entry of tenant % names the transaction %, which does not exist. Nothing was migrated: see npm run audit of the version before.',
      wrong.tenant_id, wrong.transaction_id using errcode = 'check_violation';
  end if;
  select coalesce(a.tenant_id, e.tenant_id) as tenant_id, coalesce(a.currency, e.currency) as currency,
    coalesce(a.name, e.account) as account into wrong
  from ledger_accounts a
  full join (select tenant_id, currency, account, sum(amount_minor) from ledger_entries group by 1, 2, 3) e
    on e.tenant_id = a.tenant_id and e.currency = a.currency and e.account = a.name
  where coalesce(a.balance_minor, 0) <> coalesce(e.sum, 0)
  limit 1;
  if found then
    raise exception 'The balance of the ledger account % % of tenant % is not the sum of its entries. Nothing was migrated: see npm run audit of the version before.',
      wrong.currency, wrong.account, wrong.tenant_id using errcode = 'check_violation';
  end if;
end $$;

-- How many transfers an account has seen, and when the last one was.
alter table ledger_accounts
  add column last_seq bigint not null default 0,
  add column last_at timestamptz,
  alter column last_seq set statistics 10,
  alter column last_at set statistics 10;

create table ledger_transfers (
  tenant_id uuid not null,
  id uuid not null,
  kind text not null check (kind in ('capture', 'refund', 'refund_failed', 'top_up', 'top_up_reversed', 'payout_paid',
    'payout_returned', 'dispute_withdrawn', 'dispute_reinstated', 'fee', 'correction')),
  subject_id uuid not null,
  -- What has several legs is several transfers of one group; null where one is all.
  group_id uuid,
  debit_account text not null check (debit_account in ('available', 'processor_clearing', 'fees')),
  credit_account text not null check (credit_account in ('available', 'processor_clearing', 'fees')),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  amount_minor bigint not null check (amount_minor > 0),
  -- Of transfers from or to `available`: their order, without gaps, and the balance that each left.
  seq bigint,
  balance_after_minor bigint,
  created_at timestamptz not null,
  -- What happened once is posted once, whoever reports it.
  constraint ledger_transfers_once primary key (tenant_id, subject_id, kind),
  constraint ledger_transfers_move_something check (debit_account <> credit_account),
  constraint ledger_transfers_of_available check
    ((seq is not null) = ('available' in (debit_account, credit_account)) and (balance_after_minor is not null) = (seq is not null))
);

insert into ledger_transfers (tenant_id, id, kind, subject_id, debit_account, credit_account, currency, amount_minor, seq,
  balance_after_minor, created_at)
select t.tenant_id, t.id, t.kind, t.subject_id, debit.account, credit.account, credit.currency, credit.amount_minor,
  case when to_available.minor is not null then row_number() over account end,
  case when to_available.minor is not null then sum(to_available.minor) over account end,
  t.created_at
from ledger_transactions t
join ledger_entries debit on debit.tenant_id = t.tenant_id and debit.transaction_id = t.id and debit.amount_minor < 0
join ledger_entries credit on credit.tenant_id = t.tenant_id and credit.transaction_id = t.id and credit.amount_minor > 0
cross join lateral (
  select case 'available' when credit.account then credit.amount_minor when debit.account then debit.amount_minor end as minor
) to_available
window account as (partition by t.tenant_id, credit.currency, to_available.minor is null order by t.created_at, t.id);

update ledger_accounts a set last_seq = told.transfers, last_at = told.last_at
from (
  select t.tenant_id, t.currency, leg.account, count(*) as transfers, max(t.created_at) as last_at
  from ledger_transfers t cross join lateral (values (t.debit_account), (t.credit_account)) leg(account)
  group by 1, 2, 3
) told
where a.tenant_id = told.tenant_id and a.currency = told.currency and a.name = told.account;

create unique index ledger_transfers_seq on ledger_transfers (tenant_id, currency, seq) where seq is not null;
create index ledger_transfers_created_at on ledger_transfers using brin (created_at);
create trigger ledger_transfers_are_final before update or delete or truncate on ledger_transfers
  for each statement execute function refuse_change();

-- An account is there before anything is posted to it.
insert into ledger_accounts (tenant_id, currency, name)
select p.tenant_id, p.currency, account.name
from (select distinct tenant_id, currency from payments) p cross join (values ('available'), ('processor_clearing')) account(name)
on conflict do nothing;

drop table ledger_entries, ledger_transactions;
drop function post_entries();

do $$
declare
  each record;
begin
  for each in
    select attname from pg_attribute where attrelid = 'ledger_transfers'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table ledger_transfers alter column %I set statistics 10', each.attname);
  end loop;
end $$;
