-- A payout is failed by hand only when nothing can leave any more; what two operators agree on is proposed by one and confirmed by another.

-- Until then it stays open, and its reserved amount with it. The reason is its failure.
alter table payouts add column fail_requested_at timestamptz, drop constraint payouts_failure;

-- Those that were failed by hand while a call was under way kept their amount. They count as forced.
update ledger_accounts a set reserved_minor = a.reserved_minor - h.amount_minor
from (
  select tenant_id, upper(currency) as currency, sum(amount_minor)::bigint as amount_minor from payouts where held and not open
  group by 1, 2
) h
where a.tenant_id = h.tenant_id and a.currency = h.currency and a.name = 'available';

-- What is open is reserved.
alter table payouts drop column held,
  add constraint payouts_failure check
    ((failure is not null) = (status = 'failed' or (status in ('pending', 'processing') and fail_requested_at is not null)));
alter table payouts alter column fail_requested_at set statistics 10;

-- What one operator proposes takes place once another confirms it. Workers carry it out. A correction of the ledger has its proposal as its
-- subject. Who confirms is a user of the dashboard; who proposes may also use a command, in the name of one.
create table proposals (
  id uuid primary key,
  tenant_id uuid not null references tenants (id),
  kind text not null check (kind in ('correction', 'fail_payout')),
  payout_id uuid,
  currency text check (currency ~ '^[A-Z]{3}$'),
  -- What a correction changes the balance by.
  amount_minor bigint check (amount_minor <> 0 and abs(amount_minor) <= 9007199254740991),
  reason text not null check (length(reason) between 1 and 1000),
  proposed_by_id uuid not null,
  proposed_by text not null check (length(proposed_by) between 1 and 320),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  decision text check (decision in ('confirmed', 'rejected', 'canceled')),
  decided_by_id uuid,
  decided_by text check (length(decided_by) between 1 and 320),
  decided_at timestamptz,
  -- Null until a worker has carried out what was confirmed; `refused`: why that was not possible any more.
  carried_out_at timestamptz,
  refused text,
  constraint proposals_kind check
    ((kind = 'correction') = (currency is not null and amount_minor is not null and payout_id is null)
      and (kind = 'fail_payout') = (payout_id is not null and currency is null and amount_minor is null)),
  constraint proposals_decided check
    ((decision is null) = (decided_at is null) and (decision is null) = (decided_by is null)),
  constraint proposals_need_two check
    (decision is distinct from 'confirmed' or (decided_by_id is not null and decided_by_id <> proposed_by_id)),
  constraint proposals_in_time check (decision is distinct from 'confirmed' or decided_at < expires_at),
  constraint proposals_carried_out check
    ((carried_out_at is null or coalesce(decision = 'confirmed', false)) and (refused is null or carried_out_at is not null))
);
create index proposals_listed on proposals (created_at, id);
create index proposals_undecided on proposals (expires_at) where decision is null;
create index proposals_confirmed on proposals (decided_at) where decision = 'confirmed' and carried_out_at is null;

-- A refund that was resolved as failed may have been made by the processor all the same: how far the processor is known to have come with
-- it, and what was posted of it and has not come back.
alter table refunds add column processor_status text check (processor_status in ('pending', 'succeeded', 'failed')),
  add column out_minor bigint not null default 0;
update refunds set processor_status = case when processor_reference is not null then status end,
  out_minor = case when status = 'succeeded' then amount_minor else 0 end
where processor_reference is not null or status = 'succeeded';
alter table refunds add constraint refunds_out check (out_minor in (0, amount_minor)),
  add constraint refunds_succeeded_is_out check (status <> 'succeeded' or out_minor = amount_minor),
  add constraint refunds_pending_is_not_out check (status <> 'pending' or out_minor = 0);
alter table refunds alter column processor_status set statistics 10;
alter table refunds alter column out_minor set statistics 10;
