-- What is believed has an order: how a top-up stands at the processor, and which answer a drift shows.

-- As the processor said it last; it moves only forward. Null: not known to have been there.
alter table top_ups add column processor_status text
  check (processor_status in ('pending', 'succeeded', 'failed', 'canceled', 'reversed'));
alter table top_ups alter column processor_status set statistics 10;
-- A failure was not recorded with whose it was: such a top-up may still be said to have come.
update top_ups set processor_status = case
    when reversed_minor > 0 then 'reversed' when came_minor > 0 then 'succeeded' when status = 'canceled' then 'canceled'
    else 'pending' end
where processor_reference is not null;

-- Whether a drift of a row was closed lately.
create index drifts_of_row on drifts (tenant_id, subject, subject_id);

-- Which account the credentials of a provider are of: another key of the same account sees what was sent with the first.
create table provider_accounts (
  provider text not null,
  -- A fingerprint of them.
  credentials text not null,
  account text not null check (length(account) between 1 and 255),
  learnt_at timestamptz not null default clock_timestamp(),
  primary key (provider, credentials)
);

-- What operators propose to fail is a payout of the tenant.
alter table proposals add constraint proposals_payout foreign key (tenant_id, payout_id) references payouts (tenant_id, id);
