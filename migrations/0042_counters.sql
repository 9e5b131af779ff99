-- locks: event_sequences share update exclusive, ledger_accounts share update exclusive
-- A row that each event or payment of a tenant changes needs much free space in its page: while a session holds an old
-- snapshot, no version of the row is removed, and each version that moves to another page adds an entry to each index.
-- A lookup of the row reads all these entries.
alter table event_sequences set (fillfactor = 10);
alter table ledger_accounts set (fillfactor = 10);
