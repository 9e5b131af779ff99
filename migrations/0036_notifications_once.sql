-- The primary key and `notifications_lookup` keep each notification unique, also those of the previous release.
-- locks: notifications
alter table notifications drop constraint if exists notifications_once;
