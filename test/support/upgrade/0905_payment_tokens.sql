-- locks: payments share update exclusive
alter table payments validate constraint payments_have_tokens;
