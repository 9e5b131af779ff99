-- The users of an installation: an owner of the tables for migrations and commands, a login for each process, one for
-- reports. deploy/postgres/create-users.sh runs it, with the passwords in variables of the environment.
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv api_password API_PASSWORD
\getenv webhooks_password WEBHOOKS_PASSWORD
\getenv worker_password WORKER_PASSWORD
\getenv dashboard_password DASHBOARD_PASSWORD
\getenv reports_password REPORTS_PASSWORD

-- An error is one sentence.
\set SHOW_CONTEXT never
do $$
declare
  existing text;
begin
  if current_setting('server_version_num')::integer < 180000 then
    raise exception 'PostgreSQL 18 or newer is needed, and this server is PostgreSQL %',
      split_part(current_setting('server_version'), ' ', 1);
  end if;
  select string_agg(rolname, ', ' order by rolname) into existing
  from pg_roles
  where rolname in (
    'acme_owner', 'acme_api', 'acme_webhooks', 'acme_worker', 'acme_dashboard', 'acme_reports', 'sluice_service',
    'sluice_api', 'sluice_webhooks', 'sluice_worker', 'sluice_dashboard', 'sluice_reader');
  if existing is not null then
    raise exception 'The users exist already: %; another installation needs a server of its own', existing;
  end if;
end
$$;

-- The statements contain the passwords: the server must not log or record them.
set log_statement = 'none';
set log_min_error_statement = 'panic';
set log_min_duration_statement = -1;
set log_min_duration_sample = -1;
set log_transaction_sample_rate = 0;
set pg_stat_statements.track = 'none';
set pgaudit.log = 'none';

begin;
-- The guide Sizing says how the limits of connections are counted and raised. Their sum is below max_connections, so
-- that no user can take the connections of another.
create role acme_owner login connection limit 20 password :'owner_password';
-- The owner of a database owns its schema `public` too.
select format('alter database %I owner to acme_owner', current_database()) \gexec

-- The owner may not create roles, so the roles that the migrations grant rights to are created here.
create role sluice_service;
create role sluice_api in role sluice_service;
create role sluice_webhooks in role sluice_service;
create role sluice_worker in role sluice_service;
create role sluice_dashboard in role sluice_service, sluice_api;
create role sluice_reader;

create role acme_api login connection limit 90 password :'api_password' in role sluice_api;
create role acme_webhooks login connection limit 45 password :'webhooks_password' in role sluice_webhooks;
create role acme_worker login connection limit 145 password :'worker_password' in role sluice_worker;
create role acme_dashboard login connection limit 60 password :'dashboard_password' in role sluice_dashboard;
create role acme_reports login connection limit 10 password :'reports_password' in role sluice_reader;
-- Behind PgBouncer, the settings of sessions are settings of their users: SESSION_SETTINGS in
-- src/core/postgres/settings.ts. acme_owner may not alter other users, so that `npm run migrate` cannot write them.
select format('alter role %I in database %I set %I = %L', login, current_database(), name, value)
from unnest(array['acme_api', 'acme_webhooks', 'acme_worker', 'acme_dashboard']) login,
  (values
    ('statement_timeout', '12000'),
    ('transaction_timeout', '30000'),
    ('client_min_messages', 'warning'),
    ('plan_cache_mode', 'force_generic_plan'),
    ('enable_seqscan', 'off'),
    ('enable_hashjoin', 'off'),
    ('enable_mergejoin', 'off'),
    ('random_page_cost', '0.1'),
    ('seq_page_cost', '0.1'),
    ('jit', 'off')) settings (name, value) \gexec
alter role acme_reports set idle_in_transaction_session_timeout = '1min';

-- What PostgreSQL allows everybody, and what could fill the disk: the operations guide, section Database.
select format('revoke temporary on database %I from public', current_database()) \gexec
revoke create on schema public from public;
revoke execute on function
  lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea), lo_import(text), lo_import(text, oid),
  lo_open(oid, integer), lo_put(oid, bigint, bytea), lowrite(integer, bytea), lo_truncate(integer, integer),
  lo_truncate64(integer, bigint), pg_logical_emit_message(boolean, text, text, boolean),
  pg_logical_emit_message(boolean, text, bytea, boolean) from public;
commit;
