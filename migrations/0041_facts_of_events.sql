-- Events name the address of a suppression that was lifted, too. The suppression has the only copy, sealed: it is erased when
-- these events are no longer kept.
alter table suppressions drop constraint suppressions_sealed;
alter table suppressions add constraint suppressions_sealed check (sealed is not null or deleted_at is not null);
create index suppressions_to_erase on suppressions (deleted_at) where sealed is not null and deleted_at is not null;
