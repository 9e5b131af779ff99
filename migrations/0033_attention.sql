-- What needs a person, found among any number of rows that wait for somebody else.

create index verifications_failed on verifications (tenant_id, updated_at) where status = 'requires_input' and failure is not null;
create index disputes_to_answer on disputes (tenant_id, opened_at) where status = 'needs_response';
