-- One index of the events of a row instead of two: writing each is a part of creating a customer. It is in the order in which they are
-- read and erased.
create index events_of_subject on events (tenant_id, subject_id, created_at, id);
drop index events_subject, events_of_customers;
