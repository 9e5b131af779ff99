-- Commits that wait for a synchronous standby.

-- Setting its value is the smallest write whose commit waits for a synchronous standby. It locks nothing.
create sequence replication_confirmations as smallint;
