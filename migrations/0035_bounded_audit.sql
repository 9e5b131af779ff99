-- Entries of the audit log are bounded: nothing is ever taken off it, and its pages read whatever was written. Those from before stay.
alter table audit_entries add constraint audit_entries_bounded check (
  jsonb_typeof(details) = 'object' and octet_length(details::text) <= 16384 and length(action) <= 100
  and length(subject_id) <= 255 and length(address) <= 100 and length(request_id) <= 100
) not valid;
