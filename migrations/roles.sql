-- All rights, granted anew after every migration, so that they also apply to new tables and to roles created
-- later.
--
-- A process connects as a login user that is a member of its role. No role owns anything, and no role can log in. The
-- owner of the tables, which runs migrations, is a member of no role. A missing role that cannot be created is
-- reported.
do $roles$
declare
  here constant text := current_schema();
  services constant text[] := array['sluice_api', 'sluice_webhooks', 'sluice_worker', 'sluice_dashboard'];
  -- `sluice_service` is the common role: it sees every tenant, because each statement names its tenant. The dashboard
  -- also serves the routes of the API, so it also has the role of the API. `sluice_reader` is for people and reports:
  -- it sees the rows of the tenant in `set sluice.tenant_id = '...'`, and none without it.
  roles constant text[] := services || array['sluice_service', 'sluice_reader'];
  -- Functions with which any user could fill the disk. A large object can have any size, and no policy restricts its
  -- creator; a logical message is written to the write-ahead log even outside of a transaction.
  disk_filling constant text := (
    select string_agg(format('%s', p.oid::regprocedure), ', ' order by p.proname, p.oid) from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and (p.proname like 'lo\_%' or p.proname in ('loread', 'lowrite', 'pg_logical_emit_message'))
      and has_function_privilege('public', p.oid, 'execute'));
  missing text[] := '{}';
  listed text[] := '{}';
  each record;
begin
  -- PostgreSQL grants these rights to everybody. A role that can create a table with a trigger could thereby call
  -- functions that run with the owner's rights.
  for each in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = here::regnamespace and pg_has_role(p.proowner, 'usage') and has_function_privilege('public', p.oid, 'execute')
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('revoke execute on function %s from public', each.name);
  end loop;
  for each in
    select format('temporary on database %I', datname) as what, pg_has_role(datdba, 'usage') as mine
    from pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba))) a
    where datname = current_database() and a.grantee = 0 and a.privilege_type = 'TEMPORARY'
    union all
    select format('create on schema %I', nspname), pg_has_role(nspowner, 'usage')
    from pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a
    where nspname = here and a.grantee = 0 and a.privilege_type = 'CREATE'
    union all
    select 'execute on function ' || disk_filling, rolsuper from pg_roles where rolname = current_user and disk_filling is not null
  loop
    -- The operations guide lists the rights that only a superuser or the owner of the database may revoke.
    if each.mine then execute format('revoke %s from public', each.what); end if;
  end loop;

  for each in select name from unnest(roles) name where not exists (select from pg_roles where rolname = name) loop
    begin
      execute format('create role %I nologin', each.name);
    exception
      -- A concurrent migration of another database on this server has created the role.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then null;
    end;
  end loop;
  for each in
    select member.rolname as name, granted.rolname as role
    from (select name, 'sluice_service' as role from unnest(services) name union all values ('sluice_dashboard', 'sluice_api')) wanted
    join pg_roles member on member.rolname = wanted.name
    join pg_roles granted on granted.rolname = wanted.role
    where not exists (select from pg_auth_members m where m.roleid = granted.oid and m.member = member.oid)
  loop
    begin
      execute format('grant %I to %I', each.role, each.name);
    exception
      when unique_violation then null;
      when insufficient_privilege then missing := missing || format('%s in %s', each.name, each.role);
    end;
  end loop;
  missing := missing || array(
    select name from unnest(roles) with ordinality r (name, nth) where not exists (select from pg_roles where rolname = name) order by nth);
  if missing <> '{}' then
    raise warning 'The roles of the processes are not set up: % may not create roles. Missing: %. See docs/guides/databases.md#managed-servers',
      current_user, array_to_string(missing, ', ');
    return;
  end if;

  execute format('grant usage on schema %I to sluice_service, sluice_reader', here);
  -- Tables of others stay as they are, for example those of an extension that the provider of a server has installed.
  execute (
    select format('revoke all on %s from sluice_api, sluice_webhooks, sluice_worker, sluice_dashboard, sluice_service, sluice_reader',
      string_agg(format('%I.%I', here, relname), ', '))
    from pg_class where relnamespace = here::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') and pg_has_role(relowner, 'usage'));
  for each in
    select format('function %s', p.oid::regprocedure) as what, a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.pronamespace = here::regnamespace and pg_has_role(p.proowner, 'usage') and a.grantee::regrole::text = any(roles)
    union
    select format('sequence %I.%I', here, c.relname), a.grantee::regrole from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = here::regnamespace and c.relkind = 'S' and pg_has_role(c.relowner, 'usage')
      and a.grantee::regrole::text = any(roles)
  loop
    execute format('revoke all on %s from %s', each.what, each.role);
  end loop;
  grant usage on sequence created_at_microseconds to sluice_api, sluice_worker;
  grant execute on function unique_now() to sluice_api, sluice_worker;
  -- The API confirms that what it has read is at the synchronous standby.
  grant update on sequence replication_confirmations to sluice_api;

  for each in select * from (values
    -- Each process checks whether the database is migrated for its version.
    ('sluice_service', 'schema_migrations', 'select (name)'),
    -- Each process reports that it runs.
    ('sluice_service', 'processes', 'select, insert (id, name, version, host, pid, queues, started_at, sealed_at), update (seen_at, sealed_at, ended_at)'),
    -- The webhooks host is public: it reads neither the seal, nor who decided about switches.
    ('sluice_api', 'installation', 'select (id)'),
    ('sluice_worker', 'installation', 'select (id)'),
    ('sluice_api', 'lineage', 'select'),
    ('sluice_worker', 'lineage', 'select'),
    ('sluice_api', 'database_switches', 'select'),
    ('sluice_worker', 'database_switches', 'select'),
    ('sluice_worker', 'database_switches', 'update (listed_at, lists_read_at, discarded_at, opt_outs_read_at)'),
    ('sluice_worker', 'failing_lists', 'select, insert, update, delete'),

    ('sluice_api', 'api_keys', 'select, update (last_used_at)'),
    ('sluice_api', 'tenants', 'select (id, email_domains, sms_senders)'),
    -- The API says where a clock moves; the worker moves it.
    ('sluice_api', 'test_clocks', 'select, insert (tenant_id, advance_to), update (advance_to, moved_at, steps, remaining)'),
    -- The API can change neither the verification of a customer, recipient or merchant, nor the destination of a
    -- recipient.
    ('sluice_api', 'customers', 'select, insert (tenant_id, id, idempotency_key, name, email, phone, external_id, metadata),
      update (name, email, phone, external_id, metadata, updated_at, deleted_at)'),
    ('sluice_api', 'recipients', 'select,
      insert (tenant_id, id, idempotency_key, name, email, type, currency, country, destination, metadata),
      update (name, email, metadata, archived_at, updated_at)'),
    ('sluice_api', 'merchants', 'select,
      insert (tenant_id, id, idempotency_key, legal_name, display_name, country, support_email, url, metadata),
      update (legal_name, display_name, country, support_email, url, metadata, archived_at, updated_at)'),
    -- The API writes requested changes of a payment; the worker writes their outcomes.
    ('sluice_api', 'payments', 'select,
      insert (tenant_id, id, idempotency_key, amount_minor, currency, method, customer_id, merchant_id, description, return_url,
      metadata, processor),
      update (status, failure, cancellation_reason, cancel_requested_at, amount_refund_reserved_minor, updated_at, metadata, return_url)'),
    -- The API fills in rows that were made again.
    ('sluice_api', 'refunds', 'select, update (metadata),
      insert (tenant_id, id, payment_id, idempotency_key, amount_minor, currency, reason, processor, metadata)'),
    ('sluice_api', 'disputes', 'select'),
    ('sluice_api', 'payouts', 'select,
      insert (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, description, metadata, processor),
      update (status, failure, cancel_requested_at, canceled_at, fail_requested_at, failed_at, updated_at, metadata)'),
    ('sluice_api', 'top_ups', 'select, update (metadata),
      insert (tenant_id, id, idempotency_key, amount_minor, currency, source, description, processor, metadata)'),
    -- The API writes manual decisions; the worker writes the provider's decisions.
    ('sluice_api', 'verifications', 'select,
      insert (tenant_id, id, idempotency_key, subject_type, subject_id, subject_fingerprint, return_url, metadata, provider),
      update (status, failure, decision, decision_reason, decided_by, decided_by_key_id, decided_at, links, links_until,
      cancel_requested_at, cancellation_reason, updated_at, metadata, return_url)'),
    ('sluice_api', 'ai_tasks', 'select, insert (tenant_id, id, idempotency_key, kind, model, max_output_tokens, metadata),
      update (status, finished_at, updated_at)'),
    -- The API seals the text of a message; the worker writes the outcome of sending the message.
    ('sluice_api', 'messages', 'select, insert (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
      terms, tags, provider, segments, encoding, send_at, metadata), update (status, updated_at)'),
    ('sluice_api', 'message_attachments', 'insert'),
    ('sluice_api', 'templates', 'select, insert, update (name, subject, text, html, body, metadata, deleted_at, updated_at)'),
    ('sluice_api', 'suppressions', 'select, insert, update (deleted_at, updated_at)'),
    ('sluice_api', 'latest_opt_outs', 'select, insert, update (opts_out, received_at, fact_id)'),
    ('sluice_api', 'message_limits', 'select, insert, update (window_start, used)'),
    ('sluice_api', 'idempotency_keys', 'select, insert'),
    -- The API writes the request of a call, and cannot read it back.
    ('sluice_api', 'jobs', 'select (id, tenant_id, queue, name, resource_id, payload, state, run_at, attempt, worker, started_at, outcome, last_error,
      created_at, finished_at, operation, generation, key, first_sent_at, last_sent_at, refused_since, in_doubt, provider_reference),
      insert (id, tenant_id, queue, name, resource_id, payload, max_attempts, wakeup_sent_at, run_at, dedupe_key, request_id, operation,
      generation, key, request, trace_context)'),
    ('sluice_api', 'job_attempts', 'select'),
    ('sluice_api', 'notifications', 'select (id, provider, event_id, kind, object_id, state, tenant_id, resource, resource_id, received_at, applied_at)'),
    -- The API opens accounts and reserves amounts; it cannot change a balance.
    ('sluice_api', 'ledger_accounts', 'select, insert (tenant_id, currency, name), update (reserved_minor)'),
    ('sluice_api', 'ledger_transfers', 'select'),
    -- Only the sequencer gives an event its position in the feed.
    ('sluice_api', 'events', 'select, insert (tenant_id, id, type, subject_id, data, trace_context)'),
    ('sluice_api', 'event_sequences', 'select'),
    ('sluice_api', 'feed_entries', 'select'),
    -- Only the owner restarts feeds, with `restart_feeds`.
    ('sluice_api', 'feed_restarts', 'select'),
    ('sluice_api', 'lost_requests', 'select'),
    -- The API seals the secrets and headers of endpoints; the worker writes the health of endpoints.
    ('sluice_api', 'webhook_endpoints', 'select, insert (tenant_id, id, idempotency_key, slot, url, types, description, headers, secrets,
      ordered, max_in_flight, rate_per_s, metadata),
      update (url, types, description, headers, secrets, ordered, max_in_flight, rate_per_s, metadata, status, disabled_reason, notified_at,
      failing_since, enabled_at, deleted_at, updated_at)'),
    -- The API inserts test deliveries only.
    ('sluice_api', 'webhook_deliveries', 'select, insert (tenant_id, id, endpoint_id, event_id, event_created_at, type, sample, status,
      next_attempt_at)'),
    ('sluice_api', 'webhook_due', 'select'),
    ('sluice_api', 'webhook_recoveries', 'select, insert (tenant_id, id, endpoint_id, since, until)'),
    ('sluice_api', 'webhook_stats', 'select'),
    ('sluice_api', 'erasures', 'insert (tenant_id, customer_id)'),
    ('sluice_api', 'drifts', 'select'),
    ('sluice_api', 'job_history', 'select (id, tenant_id, queue, name, resource_id, payload, state, run_at, attempt, worker, started_at, outcome, last_error,
      created_at, finished_at, operation, generation, key, first_sent_at, last_sent_at, refused_since, in_doubt, provider_reference)'),
    ('sluice_api', 'job_attempt_history', 'select'),
    ('sluice_api', 'notification_history', 'select (id, provider, event_id, kind, object_id, state, tenant_id, resource, resource_id, received_at, applied_at)'),
    ('sluice_api', 'all_jobs', 'select'),
    ('sluice_api', 'all_job_attempts', 'select'),
    ('sluice_api', 'all_provider_calls', 'select'),
    ('sluice_api', 'all_notifications', 'select'),

    ('sluice_webhooks', 'notifications', 'insert (id, provider, account, event_id, livemode, kind, object_id, payload, state, reported, due_at, applied_at,
      tenant_id, resource, resource_id), select (id, provider, object_id, state, received_at)'),
    -- To recognize redundant notifications.
    ('sluice_webhooks', 'payments', 'select (tenant_id, id, processor, processor_reference, status, amount_minor, currency,
      amount_capturable_minor, amount_captured_minor, cancellation_reason)'),
    ('sluice_webhooks', 'refunds', 'select (tenant_id, id, payment_id, processor, processor_reference, status, amount_minor, currency, out_minor)'),
    ('sluice_webhooks', 'payouts', 'select (tenant_id, id, processor, processor_reference, processor_status, status, amount_minor, currency,
      returned_minor)'),
    ('sluice_webhooks', 'top_ups', 'select (tenant_id, id, processor, processor_reference, status, amount_minor, currency, received_minor, reversed_minor)'),
    ('sluice_webhooks', 'drifts', 'select (tenant_id, subject, subject_id, resolved_at)'),
    -- To know the mode of the processor's account, whose key the host does not have.
    ('sluice_webhooks', 'provider_accounts', 'select (provider, account)'),
    -- A repeated notification is not stored again.
    ('sluice_webhooks', 'notification_history', 'select (id, finished_at)'),
    ('sluice_webhooks', 'jobs', 'insert (id, tenant_id, queue, name, resource_id, payload, max_attempts, wakeup_sent_at, dedupe_key, request_id,
      trace_context), select (tenant_id, resource_id, state, attempt, in_doubt, generation, created_at, trace_context)'),

    ('sluice_worker', 'jobs', 'select, insert, update'),
    ('sluice_worker', 'job_attempts', 'select, insert'),
    ('sluice_worker', 'pauses', 'select'),
    -- The worker makes lost rows again.
    ('sluice_worker', 'payments', 'select, insert (tenant_id, id, idempotency_key, status, amount_minor, currency, method, customer_id,
      merchant_id, description, client_secret, failure, authorized_at, processor, processor_reference, recovered_at), update'),
    ('sluice_worker', 'refunds', 'select, insert, update'),
    ('sluice_worker', 'disputes', 'select, insert, update'),
    ('sluice_worker', 'payouts', 'select, insert (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, description,
      processor, processor_reference, call_started_at, recovered_at), update'),
    ('sluice_worker', 'top_ups', 'select, insert (tenant_id, id, idempotency_key, amount_minor, currency, description, processor,
      processor_reference, recovered_at), update'),
    ('sluice_worker', 'ai_tasks', 'select, update'),
    -- The worker inserts the emails that report a disabled endpoint, and received SMS.
    ('sluice_worker', 'messages', 'select, insert (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
      terms, tags, provider, provider_reference, segments, encoding, send_at, metadata), update'),
    ('sluice_worker', 'templates', 'select (tenant_id, id, updated_at)'),
    ('sluice_worker', 'message_attachments', 'select, insert (tenant_id, message_id, nth, content), delete'),
    ('sluice_worker', 'suppressions', 'select, insert, update (sealed, deleted_at, updated_at)'),
    ('sluice_worker', 'latest_opt_outs', 'select, insert, update (opts_out, received_at, fact_id)'),
    ('sluice_worker', 'message_limits', 'select, insert (tenant_id, scope, window_start, used), update (window_start, used), delete'),
    -- For the audit.
    ('sluice_worker', 'tenants', 'select'),
    ('sluice_worker', 'test_clocks', 'select, update'),
    ('sluice_worker', 'test_clock_steps', 'select, insert, update (clock_offset), delete'),
    ('sluice_worker', 'customers', 'select (tenant_id, id, idempotency_key, recovered_at, kyc_status, kyc_id), insert (tenant_id, id, idempotency_key, recovered_at)'),
    ('sluice_worker', 'recipients', 'select (tenant_id, id, idempotency_key, recovered_at, kyc_status, kyc_id),
      insert (tenant_id, id, idempotency_key, name, type, currency, country, destination, recovered_at)'),
    ('sluice_worker', 'merchants', 'select (tenant_id, id, idempotency_key, recovered_at, kyc_status, kyc_id),
      insert (tenant_id, id, idempotency_key, legal_name, display_name, country, support_email,
      recovered_at)'),
    ('sluice_worker', 'verifications', 'select, insert (tenant_id, id, idempotency_key, subject_type, subject_id, subject_fingerprint, provider,
      provider_reference, requested_at, recovered_at), update'),
    ('sluice_worker', 'ledger_transfers', 'select, insert'),
    ('sluice_worker', 'ledger_accounts', 'select, insert (tenant_id, currency, name), update (balance_minor, reserved_minor, last_seq, last_at)'),
    ('sluice_worker', 'events', 'select, insert (tenant_id, id, type, subject_id, data, trace_context)'),
    ('sluice_worker', 'event_sequences', 'select'),
    ('sluice_worker', 'event_outbox', 'select'),
    ('sluice_worker', 'feed_entries', 'select'),
    ('sluice_worker', 'feed_restarts', 'select'),
    ('sluice_worker', 'lost_requests', 'select, insert (tenant_id, id, entry, switch_number, idempotency_key, path, resource_id, accepted_at)'),
    ('sluice_worker', 'webhook_endpoints', 'select, update (status, disabled_reason, notified_at, failing_since, stale, updated_at), delete'),
    ('sluice_worker', 'webhook_backlogs', 'select, update (next_send_at), delete'),
    ('sluice_worker', 'webhook_deliveries', 'select, update'),
    ('sluice_worker', 'webhook_due', 'select, insert, update, delete'),
    ('sluice_worker', 'webhook_recoveries', 'select, update, delete'),
    ('sluice_worker', 'webhook_stats', 'select, insert, update, delete'),
    -- The reconciler stores notifications that were not received.
    ('sluice_worker', 'notifications', 'select, insert, update'),
    ('sluice_worker', 'recurring_work', 'select, insert, update'),
    ('sluice_worker', 'drifts', 'select, insert, update'),
    ('sluice_worker', 'provider_accounts', 'select, insert'),
    ('sluice_worker', 'idempotency_keys', 'select, insert, update (fingerprint, job_id), delete'),
    -- Only functions with the owner's rights write to and delete from the history.
    ('sluice_worker', 'job_history', 'select'),
    ('sluice_worker', 'job_attempt_history', 'select'),
    ('sluice_worker', 'notification_history', 'select'),
    ('sluice_worker', 'all_jobs', 'select'),
    ('sluice_worker', 'all_job_attempts', 'select'),
    ('sluice_worker', 'all_provider_calls', 'select'),
    ('sluice_worker', 'all_notifications', 'select'),
    ('sluice_worker', 'partitions', 'select'),
    -- For the audit, which checks the chain of the audit log.
    ('sluice_worker', 'audit_entries', 'select'),
    ('sluice_worker', 'audit_head', 'select'),
    -- The worker is the payment processor and the recipient of tenants in test mode.
    ('sluice_worker', 'sandboxes', 'select, insert (tenant_id), update (format, last_position, generation, clock_offset_ms, due_at, bytes, pruned_at,
      updated_at)'),
    ('sluice_worker', 'sandbox_records', 'select, insert, update, delete'),
    ('sluice_worker', 'sandbox_messages', 'select, insert, delete'),
    ('sluice_worker', 'sandbox_acts', 'select, update (done_at, refused), delete'),

    -- The dashboard has these rights in addition to those of the API. It cannot change jobs.
    ('sluice_dashboard', 'tenants', 'select, insert (id, slug, name, mode, twin_id, email_domains, sms_senders), update (email_domains)'),
    ('sluice_dashboard', 'api_keys', 'insert (tenant_id, id, name, hash, last_four, scopes, expires_at), update (expires_at, revoked_at)'),
    -- The dashboard can neither make a user an operator nor change a user's address.
    ('sluice_dashboard', 'users', 'select, insert (id, name, email, email_verified), update (name, email_verified, two_factor_enabled, updated_at)'),
    ('sluice_dashboard', 'user_accounts', 'select, insert, update, delete'),
    ('sluice_dashboard', 'user_sessions', 'select, insert, update, delete'),
    ('sluice_dashboard', 'user_challenges', 'select, insert, update, delete'),
    ('sluice_dashboard', 'user_two_factors', 'select, insert, update, delete'),
    ('sluice_dashboard', 'user_passkeys', 'select, insert, update, delete'),
    ('sluice_dashboard', 'sign_in_failures', 'select, insert, update, delete'),
    ('sluice_dashboard', 'members', 'select, insert, update, delete'),
    ('sluice_dashboard', 'invitations', 'select, insert, update (accepted_at, revoked_at)'),
    ('sluice_dashboard', 'audit_entries', 'select'),
    ('sluice_dashboard', 'sandbox_messages', 'select'),
    ('sluice_dashboard', 'sandbox_acts', 'select, insert (tenant_id, id, act, reference, content)'),
    -- The worker carries out the acts of operators and records them.
    ('sluice_worker', 'processes', 'delete'),
    ('sluice_worker', 'operator_acts', 'select, update (state, found, done, refused, more, error, started_at, updated_at, finished_at), delete'),
    ('sluice_worker', 'operator_act_items', 'select, insert, update (at, before, after, lookup_only, refused)'),
    ('sluice_worker', 'operator_act_cancellations', 'select'),
    ('sluice_worker', 'job_acts', 'select, insert'),
    ('sluice_worker', 'proposals', 'select, update (carried_out_at, refused, failed_at, error)'),

    -- The dashboard requests acts; workers carry them out. The dashboard reads more columns of a job than the API, but
    -- never the request of a call.
    ('sluice_dashboard', 'operator_acts', 'select, insert (id, act, job_id, filter, actor, reason, took_effect, reference, matched)'),
    ('sluice_dashboard', 'operator_act_items', 'select'),
    ('sluice_dashboard', 'operator_act_cancellations', 'select, insert (act_id, actor)'),
    ('sluice_dashboard', 'proposals', 'select, insert (id, tenant_id, kind, payout_id, currency, amount_minor, reason, proposed_by_id, proposed_by,
      expires_at), update (decision, decided_by_id, decided_by, decided_at)'),
    ('sluice_dashboard', 'job_acts', 'select'),
    ('sluice_dashboard', 'jobs', 'select (max_attempts, unknown_since, lease_until, request_id)'),
    ('sluice_dashboard', 'job_history', 'select (max_attempts, unknown_since, lease_until, request_id)'),
    ('sluice_dashboard', 'notifications', 'select (reason, waits_for, parked_at, livemode)'),
    ('sluice_dashboard', 'pauses', 'select, insert (queue, tenant_id, reason, actor), delete'),
    ('sluice_dashboard', 'recurring_work', 'select'),
    -- Operators acknowledge and release switches of the database. Only the owner records them.
    ('sluice_dashboard', 'database_switches', 'update (acknowledged_at, acknowledged_by, released_at, released_by, messages, lists_waived_at, lists_waived_by)'),
    ('sluice_dashboard', 'failing_lists', 'select'),

    ('sluice_worker', 'job_rollups', 'select, insert, update, delete'),
    ('sluice_worker', 'tenant_rollups', 'select, insert, update, delete'),
    ('sluice_worker', 'provider_failures', 'select, insert, update, delete'),
    ('sluice_worker', 'provider_outages', 'select, insert, update, delete'),
    ('sluice_worker', 'operation_outages', 'select, insert, update, delete'),
    ('sluice_worker', 'payment_days', 'select, insert, update, delete'),
    ('sluice_worker', 'payment_cursors', 'select, insert, update'),

    ('sluice_dashboard', 'job_rollups', 'select'),
    ('sluice_dashboard', 'tenant_rollups', 'select'),
    ('sluice_dashboard', 'payment_days', 'select'),
    ('sluice_dashboard', 'payment_cursors', 'select'),
    ('sluice_dashboard', 'provider_failures', 'select'),
    ('sluice_dashboard', 'provider_outages', 'select'),
    ('sluice_dashboard', 'operation_outages', 'select'),
    ('sluice_dashboard', 'jobs', 'select (priority, failing_since)'),
    ('sluice_dashboard', 'job_history', 'select (failing_since)')
  ) as granted(role, name, privileges) loop
    execute format('grant %s on %I.%I to %I', each.privileges, here, each.name, each.role);
  end loop;

  grant execute on function check_server(jsonb, boolean), check_server(jsonb, boolean, boolean, timestamptz, boolean), current_timeline()
    to sluice_service;
  grant execute on function make_next_partition(), drop_next_partition(text, integer), count_strays(),
    move_finished_jobs(timestamptz, uuid, integer), move_notifications(timestamptz, uuid, integer), erase_next_events(integer),
    sequence_events(integer), sequence_events(integer, timestamptz), audit_hash(audit_entries),
    drop_test_rows(text, uuid, integer), drop_test_history(uuid, integer), drop_test_notifications(integer) to sluice_worker;
  grant execute on function clock_offset(uuid) to sluice_api, sluice_worker;
  grant execute on function clock_offset_at(uuid, timestamptz), due_after(uuid, interval) to sluice_worker;
  grant execute on function fill_party(text, uuid, uuid, jsonb), subject_fingerprint(text, uuid, uuid),
    unknown_destination(), placeholder_keys(uuid) to sluice_api;
  grant execute on function complete_recipient(uuid, uuid, text, text, text), unknown_destination(), unknown_text(),
    unknown_country(), placeholder_keys(uuid) to sluice_worker;
  -- Only this function writes audit entries.
  grant execute on function append_audit_entry(jsonb), unique_now() to sluice_dashboard;
  grant usage on sequence created_at_microseconds to sluice_dashboard;

  -- Readers read everything except secrets, the payloads of providers and the outputs of models. They read
  -- partitions through the parent table.
  for each in
    select c.relname as name, string_agg(format('%I', a.attname), ', ' order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = here::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition and pg_has_role(c.relowner, 'usage')
      and c.relname not in ('schema_migrations', 'migration_lock', 'installation', 'lineage', 'database_switches', 'database_heartbeat', 'failing_lists', 'recurring_work', 'partitions', 'users', 'user_accounts', 'user_sessions', 'user_challenges',
        'user_two_factors', 'user_passkeys', 'sign_in_failures', 'audit_head', 'processes', 'operator_acts', 'operator_act_items',
        'operator_act_cancellations', 'proposals', 'job_rollups', 'provider_accounts', 'provider_failures', 'provider_outages', 'operation_outages')
      and (c.relname, a.attname) not in (
        ('api_keys', 'hash'), ('payments', 'client_secret'), ('verifications', 'links'), ('jobs', 'lease_token'), ('jobs', 'request'),
        ('job_history', 'lease_token'), ('job_history', 'request'), ('notifications', 'payload'), ('notification_history', 'payload'),
        ('ai_tasks', 'output'), ('sandbox_records', 'line'), ('sandbox_records', 'key'), ('sandbox_messages', 'content'), ('sandbox_acts', 'content'), ('messages', 'envelope'), ('messages', 'content'), ('message_attachments', 'content'),
        ('suppressions', 'sealed'), ('webhook_endpoints', 'headers'), ('webhook_endpoints', 'secrets'), ('invitations', 'token_hash'), ('audit_entries', 'hash'), ('pauses', 'reason'), ('pauses', 'actor'), ('job_acts', 'reason'), ('job_acts', 'actor'),
        ('idempotency_keys', 'fingerprint'), ('verifications', 'subject_fingerprint'))
    group by c.relname
  loop
    execute format('grant select (%s) on %I.%I to sluice_reader', each.columns, here, each.name);
  end loop;

  -- A policy `using (true)` costs nothing, because the planner removes it. No policy applies to the owner.
  for each in
    select c.relname as name, c.relrowsecurity as fenced, case when c.relname = 'tenants' then 'id' else 'tenant_id' end as tenant
    from pg_class c
    where c.relnamespace = here::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and pg_has_role(c.relowner, 'usage') and (
      c.relname = 'tenants' or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
  loop
    listed := listed || array[each.name || '.services', each.name || '.readers'];
    if not exists (select from pg_policies where schemaname = here and tablename = each.name and policyname = 'services') then
      execute format('create policy services on %I.%I to sluice_service using (true) with check (true)', here, each.name);
    end if;
    -- The webhooks host is public: the policies below limit what it may write to these two tables.
    if each.name in ('jobs', 'notifications') and exists (
      select from pg_policies p where p.schemaname = here and p.tablename = each.name and p.policyname = 'services' and 'sluice_service' = any(p.roles)
    ) then
      execute format('alter policy services on %I.%I to sluice_api, sluice_worker', here, each.name);
    end if;
    if not exists (select from pg_policies where schemaname = here and tablename = each.name and policyname = 'readers') then
      execute format(
        $policy$create policy readers on %I.%I for select to sluice_reader
          using (%I = (select nullif(current_setting('sluice.tenant_id', true), '')::uuid))$policy$, here, each.name, each.tenant);
    end if;
    if not each.fenced then execute format('alter table %I.%I enable row level security', here, each.name); end if;
  end loop;

  -- The webhooks host stores notifications and the jobs that apply them: nothing that moves money by itself, and
  -- nothing large. Both the stored size and the size as text are limited, because a number that is stored in ten bytes
  -- can have 16,000 digits. A policy whose text has changed is created again.
  for each in select * from (values
    ('notifications', 'webhooks_store', $$for insert to sluice_webhooks with check (state <> 'parked' and kind <> 'reconciliation.lookup'
      and (state = 'applied') = (resource_id is not null) and (state in ('applied', 'ignored')) = (applied_at is not null)
      and coalesce(applied_at between now() - interval '1 minute' and now() + interval '1 minute', true)
      and coalesce(due_at <= now() + interval '1 minute', true) and coalesce(length(resource), 0) <= 64
      and coalesce(jsonb_typeof(reported) = 'object' and pg_column_size(reported) <= 8 * 1024
        and octet_length(reported::text) <= 8 * 1024, true)
      and greatest(length(provider), length(account), length(event_id), length(kind), length(object_id)) <= 255
      and pg_column_size(payload) <= 8 * 1024 * 1024 and octet_length(payload::text) <= 2 * 1024 * 1024)$$),
    ('notifications', 'webhooks_read', $$for select to sluice_webhooks using (true)$$),
    -- The API may not insert scheduled attempts at deliveries: only workers do.
    ('jobs', 'api_requests', $$as restrictive for insert to sluice_api with check (max_attempts <= 25
      and name <> 'webhook_endpoint.deliver'
      and (queue <> 'deliveries' or name in ('webhook_endpoint.replay', 'webhook_endpoint.test')))$$),
    -- The dashboard creates twins when test mode is opened, and no live tenants.
    ('tenants', 'dashboard_twins', $$as restrictive for insert to sluice_dashboard with check (mode = 'test')$$),
    -- Each process may write only rows of its own kind.
    ('processes', 'services_read', $$for select to sluice_service using (true)$$),
    ('processes', 'api_reports', $$to sluice_api using (name = 'api')$$),
    ('processes', 'webhooks_report', $$to sluice_webhooks using (name = 'webhooks')$$),
    ('processes', 'workers_report', $$to sluice_worker using (name = 'worker')$$),
    ('processes', 'workers_delete', $$for delete to sluice_worker using (true)$$),
    ('processes', 'dashboard_reports', $$to sluice_dashboard using (name = 'dashboard')$$),
    ('jobs', 'webhooks_read', $$for select to sluice_webhooks using (true)$$),
    ('jobs', 'webhooks_request', $$for insert to sluice_webhooks with check (
      (tenant_id, name) in (('00000000-0000-7000-8000-000000000000', 'notification.apply'),
          ('00000000-0000-7000-8000-000000000001', 'notification.apply_test'))
        and queue = 'notifications' and state = 'ready' and resource_id is null
        and payload = jsonb_build_object('notification_id', id) and max_attempts <= 25
        and coalesce(length(dedupe_key), 0) <= 600 and coalesce(length(request_id), 0) <= 64)$$)
  ) as allowed(name, policy, what)
  loop
    listed := listed || format('%s.%s', each.name, each.policy);
    continue when exists (
      select from pg_policy p where p.polrelid = format('%I.%I', here, each.name)::regclass and p.polname = each.policy
        and obj_description(p.oid, 'pg_policy') = md5(each.what));
    if exists (select from pg_policies p where p.schemaname = here and p.tablename = each.name and p.policyname = each.policy) then
      execute format('drop policy %I on %I.%I', each.policy, here, each.name);
    end if;
    execute format('create policy %I on %I.%I %s', each.policy, here, each.name, each.what);
    execute format('comment on policy %I on %I.%I is %L', each.policy, here, each.name, md5(each.what));
  end loop;
  -- Policies that only earlier versions had are dropped.
  for each in
    select p.polname as policy, c.relname as name from pg_policy p join pg_class c on c.oid = p.polrelid
    where c.relnamespace = here::regnamespace and pg_has_role(c.relowner, 'usage')
      and not format('%s.%s', c.relname, p.polname) = any(listed)
  loop
    execute format('drop policy %I on %I.%I', each.policy, here, each.name);
  end loop;
end $roles$;
