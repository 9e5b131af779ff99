-- locks: payments share update exclusive
create unique index concurrently payments_token on payments (token);
