-- locks: notifications share update exclusive
-- A clock waits until the notifications from the sandbox of its tenant are applied.
create index concurrently notifications_of_sandboxes on notifications (account) where not livemode;
