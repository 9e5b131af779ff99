-- locks: payments
alter table payments add constraint payments_have_tokens check (token is not null) not valid;
