-- A lookup is requested once. Its id is drawn; the id of any other notification is derived from the same columns.
-- locks: notifications share update exclusive
create unique index concurrently notifications_lookup
  on notifications (provider, account, event_id) where kind = 'reconciliation.lookup';
