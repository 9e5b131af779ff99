-- locks: events
-- Nothing reads the order of a feed from the events any more.
drop index sequenced_events_sequence;
drop index sequenced_events_type;
