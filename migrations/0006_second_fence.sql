-- The second fence between tenants: every row of a tenant says whose it is, and secrets of earlier versions go.

alter table job_attempts add column tenant_id uuid;
update job_attempts a set tenant_id = j.tenant_id from jobs j where j.id = a.job_id;
alter table job_attempts alter column tenant_id set not null, alter column tenant_id set statistics 10;

alter table provider_calls add column tenant_id uuid;
update provider_calls c set tenant_id = j.tenant_id,
  -- The token of a call that is over is of no more use.
  request = case when c.outcome is null then c.request else c.request - 'payment_method' end
from jobs j where j.id = c.job_id;
alter table provider_calls alter column tenant_id set not null, alter column tenant_id set statistics 10;

update notifications set payload = payload #- '{data,object,client_secret}' #- '{data,object,payment_method}' #- '{data,object,next_action}';

-- A notification has been matched to a payment of one tenant, or to nothing.
alter table notifications
  add constraint notifications_matched check ((tenant_id is null) = (subject_id is null)),
  add constraint notifications_payment foreign key (tenant_id, subject_id) references payments (tenant_id, id);
alter table pauses add constraint pauses_tenant foreign key (tenant_id) references tenants (id);

-- The balances are written with the rights of the owner: nobody else can change one apart from its entries. Its own path, or
-- who calls it could put a table of theirs in front.
do $$
begin
  execute format('alter function post_entries() security definer set search_path = %I, pg_temp', current_schema());
end $$;
