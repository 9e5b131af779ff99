-- locks: customers, merchants, payments, refunds, recipients, payouts, top_ups, verifications, drifts

-- Rows that were lost when the database went back in time, and were made again from the provider's objects.

-- When the row was made again; null for a row that was never lost. Of a customer, merchant or recipient, nothing but
-- the id is known until its creation is requested again. Until then its key is `recovered:` and its id.
alter table customers add column recovered_at timestamptz;
alter table merchants add column recovered_at timestamptz;
alter table payments add column recovered_at timestamptz;
alter table refunds add column recovered_at timestamptz;
alter table recipients add column recovered_at timestamptz;
alter table payouts add column recovered_at timestamptz;
alter table top_ups add column recovered_at timestamptz;
alter table verifications add column recovered_at timestamptz;

-- orphan: an object of ours at the provider from which no row can be made. It has no row, so it has no `ours`. The
-- tenant is the system's if it is not known.
alter table drifts alter column ours drop not null;
alter table drifts drop constraint drifts_state_check;
alter table drifts add constraint drifts_state check (state in ('unknown', 'stale', 'differs', 'orphan')) not valid;
alter table drifts add constraint drifts_ours check ((state = 'orphan') = (ours is null)) not valid;
