-- Notifications of providers, drifts between their books and ours, the provider accounts of our credentials, and
-- failed calls to providers.

-- `resource` and `resource_id` reference the root row of a notification, such as the payment of a refund. No foreign
-- key: it would lock that row for each of its notifications. The audit checks that the row exists in the same tenant.
create table notifications (
  id uuid primary key,
  provider text not null,
  account text not null default '',
  event_id text not null,
  kind text not null,
  object_id text,
  payload jsonb not null,
  -- `waiting`: a change in progress will probably give our row the reported status; at `due_at` the notification is
  -- compared with our row again.
  state text not null default 'received' check (state in ('received', 'waiting', 'applied', 'parked', 'ignored')),
  tenant_id uuid,
  resource text,
  resource_id uuid,
  received_at timestamptz not null default clock_timestamp(),
  applied_at timestamptz,
  -- While the notification waits: the reported status of its object, and the time of the next comparison.
  reported jsonb,
  due_at timestamptz,
  -- While the notification is parked: the reason, since when, and the provider's id of the object that must be created
  -- or change first. The step that creates or changes the object resumes the notification.
  reason text,
  waits_for text,
  parked_at timestamptz,
  constraint notifications_once unique (provider, account, event_id),
  -- A notification is assigned to a row of one tenant, or is not assigned.
  constraint notifications_matched check ((tenant_id is null) = (resource_id is null)
    and (resource is null) = (resource_id is null)),
  constraint notifications_waiting_until check ((state = 'waiting') = (due_at is not null)
    and (state = 'waiting') = (reported is not null)),
  constraint notifications_parked_has_reason check (state <> 'parked' or (reason is not null and parked_at is not null))
) with (fillfactor = 80);
create index notifications_of_resource on notifications (tenant_id, resource_id) where resource_id is not null;
create index notifications_parked on notifications (provider, waits_for) where state = 'parked';
-- For counts. Its condition differs from `notifications_parked`, so that the planner does not scan this index to find a
-- parked notification.
create index notifications_parked_reason on notifications (reason) where parked_at is not null;
create index notifications_parked_at on notifications (parked_at, id) where parked_at is not null;
create index notifications_waiting on notifications (due_at) where state = 'waiting';
-- Finds another notification of the same object that has a job.
create index notifications_received on notifications (provider, object_id) where state = 'received';
create index notifications_received_at on notifications (received_at);

create table notification_history (finished_at timestamptz not null, like notifications)
  partition by range (finished_at);
alter table notification_history add primary key (id, finished_at);
create table notification_history_default partition of notification_history default;
create index notification_history_of_resource on notification_history (tenant_id, resource_id)
  where resource_id is not null;

create view all_notifications with (security_invoker = true) as
  select id, provider, event_id, kind, object_id, state, tenant_id, resource_id, received_at, applied_at, resource
  from notifications
  union all
  select id, provider, event_id, kind, object_id, state, tenant_id, resource_id, received_at, applied_at, resource
  from notification_history;

-- Differences between our books and the processor's.
create table drifts (
  tenant_id uuid not null,
  id uuid not null,
  subject text not null,
  subject_id uuid not null,
  -- Null: the difference belongs to no payment.
  payment_id uuid,
  -- unknown: it is unknown whether a call took effect; stale: in progress for too long; differs: both sides are final,
  -- but not equal.
  state text not null check (state in ('unknown', 'stale', 'differs')),
  ours jsonb not null,
  -- Null until the processor answers.
  theirs jsonb,
  detail text,
  since timestamptz not null,
  checked_at timestamptz,
  created_at timestamptz not null default unique_now(),
  resolved_at timestamptz,
  primary key (tenant_id, id),
  constraint drifts_created_at unique (tenant_id, created_at),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id)
);
create unique index drifts_open on drifts (tenant_id, subject, subject_id) where resolved_at is null;
create index drifts_listed on drifts (tenant_id, created_at) where resolved_at is null;
create index drifts_of_all on drifts (created_at, id) where resolved_at is null;
-- Finds out whether a drift of a row was closed recently.
create index drifts_of_row on drifts (tenant_id, subject, subject_id);

-- The account to which a provider's credentials belong. A call that was sent with one key can be looked up with any
-- other key of the same account.
create table provider_accounts (
  provider text not null,
  -- A fingerprint of the credentials.
  credentials text not null,
  account text not null check (length(account) between 1 and 255),
  discovered_at timestamptz not null default clock_timestamp(),
  primary key (provider, credentials)
);

-- Failed calls to providers, by minute. Answered calls are not counted here.
create table provider_failures (
  provider text not null,
  at timestamptz not null,
  outcome text not null,
  count integer not null,
  primary key (provider, at, outcome)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index provider_failures_at on provider_failures (at);

-- Workers that currently get no answer from a provider: one row for each.
create table provider_outages (
  provider text not null,
  worker text not null,
  since timestamptz not null,
  outcome text not null,
  seen_at timestamptz not null,
  primary key (provider, worker)
) with (fillfactor = 50);
