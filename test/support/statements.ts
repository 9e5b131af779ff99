// The statement audit: each part of every statement of a test run must name the tenant.
import postgres from 'postgres'
import { USERS_OF_PROCESSES } from './users.ts'

/** Parts of statements that may read or write a tenant's table without naming the tenant, with the reason. */
const ALLOWED: { name: string; tables: string[]; part: RegExp; statement?: RegExp; reason: string }[] = [
  {
    name: 'key by its hash',
    tables: ['api_keys'],
    part: /where hash = any\(\$\d+::text\[\]::bytea\[\]\) and revoked_at is null/,
    reason: 'the key identifies the tenant',
  },
  {
    name: 'invitations of an address',
    tables: ['invitations'],
    part: /^ ?select from invitations where email = \$\d+ and mailed and created_at > now\(\)/,
    reason: 'the daily limit of an address covers all tenants; only a count is read',
  },
  {
    name: 'claim by id',
    tables: ['jobs'],
    part: /where j\.id = requested\.id and j\.run_at <= now\(\)/,
    reason: 'a wake-up carries only an id; the row has the tenant',
  },
  {
    name: 'fence',
    tables: ['jobs'],
    part: /where j\.id = [sl]\.\w*id and j\.lease_token = [sl]\.lease_token/,
    reason: 'the token comes from the row; all later parts use the tenant of the row',
  },
  {
    name: 'rows locked above',
    tables: ['jobs'],
    part: /from (due|fenced|claimed|resumable) where j\.id = \1\.(job_)?id\b/,
    reason: 'the same statement has found and locked these rows',
  },
  {
    name: 'state of a job by its id',
    tables: ['jobs', 'job_history'],
    part: /select id, state from (jobs|job_history) where id = any\(/,
    reason: 'ids that the process created or found with a key of the tenant',
  },
  {
    name: 'sweep of a queue',
    tables: ['jobs'],
    part: /select (j\.)?tenant_id from jobs (j )?where (j\.)?queue = .+ order by (j\.)?tenant_id limit/,
    reason: 'finds the tenants with work, for the round robin',
  },
  {
    name: 'pause of a queue',
    tables: ['pauses'],
    part: /from only pauses p where p\.queue = [qw]\.queue and p\.tenant_id is null/,
    reason: 'it belongs to no tenant',
  },
  {
    name: 'gauge',
    tables: ['jobs', 'notifications', 'event_outbox'],
    part: /from event_outbox o where o\.tenant_id > f\.tenant_id|^ ?select count\(\*\) from jobs where finished_at is null and unknown_since is not null|^ ?select from notifications n where n\.parked_at is not null and n\.reason = requested\.reason|^ ?select (j\.failing_since )?from jobs j where j\.name = (requested\.name|c\.job) and j\.finished_at is null and j\.failing_since is not null|^ ?select j\.name from jobs j where j\.finished_at is null and j\.unknown_since is not null and j\.unknown_since >= o\.since/,
    reason: 'counts over all tenants',
  },
  {
    name: 'what waits since a switch of the database',
    tables: ['jobs', 'messages', 'ledger_accounts'],
    part: /from ledger_accounts where name = \$\d+ and balance_minor < reserved_minor|from messages m where m\.open and m\.status in .+ and m\.created_at < .+ order by m\.tenant_id|select j\.queue, count\(\*\) ?(::integer )?as jobs from jobs j where j\.finished_at is null and|^ ?select count\(\*\) ?(::integer )?from jobs j where j\.finished_at is null and j\.created_at < s\.switched_at and|^ ?select count\(\*\) ?(::integer )?as running from jobs|^ ?select from jobs j where j\.finished_at is null and \( ?j\.queue = \$\d+ and j\.operation = \$\d+ and j\.unknown_since is null and case when j\.created_at <|^ ?update database_switches set released_at/,
    reason: 'a switch concerns all tenants',
  },
  {
    name: 'lost requests, for operators',
    tables: ['lost_requests'],
    part: /from lost_requests l where not exists \(\)( order by accepted_at desc, id desc limit \$\d+)? ?$/,
    reason: 'operators read all tenants',
  },
  {
    name: 'reference of a provider',
    tables: ['payments', 'refunds', 'disputes', 'payouts', 'top_ups'],
    part: /(where|and) (r\.)?processor = ((n|arrived|listed)\.provider|\$\d+) and (r\.)?processor_reference = /,
    reason: 'a provider event identifies its resource only by the reference, which is unique',
  },
  {
    name: 'orphans',
    tables: ['drifts', 'notifications'],
    part: /drifts set resolved_at = now\(\), checked_at = now\(\)(, dismissed_at = now\(\))? where subject_id = \$\d+ and state = |select from notifications where parked_at is not null and reason = /,
    reason:
      'the tenant of an object without a row may be unknown; the id is derived from the id at the provider',
  },
  {
    name: 'unfinished notifications after a switch of the database',
    tables: ['notifications'],
    part: /^ ?select from notifications n where n\.provider = \$\d+ and n\.received_at <= (?:readers\.ended_at|s\.listed_at) and|from notifications n where n\.parked_at is not null and n\.reason = \$\d+ and n\.livemode having count/,
    reason: 'it concerns the whole database; only whether there is one, or their number, is read',
  },
  {
    name: 'reference of a provider of verifications',
    tables: ['verifications'],
    part: /where provider = \$\d+ and provider_reference = |and r\.provider = listed\.provider and r\.provider_reference = listed\.reference/,
    reason: 'a provider event identifies its resource only by the reference, which is unique',
  },
  {
    name: 'sweep of expired links and abandoned verifications',
    tables: ['verifications'],
    part: /select (v\.)?tenant_id, (v\.)?id (as kyc_id )?from verifications (v )?where (links_until <= now\(\)|v\.status = \$\d+ and v\.cancel_requested_at is null and v\.updated_at <=)/,
    reason: 'finds expired rows by time; changes name the tenant',
  },
  {
    name: 'sweep of old outputs of AI tasks, and of addresses of lifted suppressions',
    tables: ['ai_tasks', 'suppressions'],
    part: /select tenant_id, id from (ai_tasks where output is not null and finished_at <= now\(\)|suppressions where sealed is not null and deleted_at <= now\(\))/,
    reason: 'finds rows by age; the erasure names the tenant',
  },
  {
    name: 'message that a notification names',
    tables: ['messages'],
    part: /from messages m where m\.(id = \$\d+ and m\.provider = \$\d+|provider = \$\d+ and m\.provider_reference = \$\d+)/,
    reason: 'its id and its reference are unique',
  },
  {
    name: 'messages of all tenants to a number',
    tables: ['messages'],
    part: /from messages m where m\.channel = \$\d+ and m\.recipients -> \$\d+ ->> \$\d+ = /,
    reason: 'a keyword applies to all tenants that wrote to the number; changes name the tenant',
  },
  {
    name: 'sweep of old texts, unreported SMS and old counts',
    tables: ['messages', 'message_limits'],
    part: /from messages where (content is not null and created_at <= now\(\)|lookup_at <= now\(\))|select tenant_id, scope from message_limits where window_start </,
    reason: 'finds expired rows by time; changes name the tenant',
  },
  {
    name: 'sandboxes with work, and those to prune',
    tables: ['sandboxes', 'sandbox_acts'],
    part: /from sandboxes where (due|pruned)_at <= |from sandbox_acts where done_at is null/,
    reason: 'finds due rows by time; changes name the tenant',
  },
  {
    name: 'sweep of deleted endpoints and old recoveries',
    tables: ['webhook_endpoints', 'webhook_recoveries'],
    part: /select tenant_id, id from (webhook_endpoints where deleted_at <|webhook_recoveries where status = \$\d+ and after_at is null and updated_at <)/,
    reason: 'finds rows by age; the deletion names the tenant',
  },
  {
    name: 'sweep of old counts of deliveries',
    tables: ['webhook_stats'],
    part: /from webhook_stats where hour </,
    reason: 'finds rows by age; the deletion names the tenant',
  },
  {
    name: 'notification not matched yet',
    tables: ['notifications', 'notification_history'],
    part: /from (notification_history h|notifications n) where [hn]\.id = input\.id|insert into notifications \(id, provider|where n\.id = (updates|change|inbound)\.notification_id|from notifications where id = \$\d+|where n\.provider = objects\.provider and n\.waits_for = objects\.reference|where n\.provider = judged\.provider and n\.object_id = judged\.object_id|from notifications (n )?where (n\.)?state = \$\d+ and (n\.)?due_at <= now\(\)|from judgement where n\.id = judgement\.id|^ ?select n\.id, n\.state from notifications n where n\.account = \$\d+ and not n\.livemode offset/,
    reason: 'its tenant is unknown until it is applied',
  },
  {
    name: 'job of a notification',
    tables: ['jobs'],
    part: /from jobs j where j\.id = (n\.id and j\.state = \$\d+ and j\.run_at > now\(\)|n\.id and \(j\.state = \$\d+ or|written\.id)/,
    reason: 'the job has the id of the notification',
  },
  {
    name: 'sweep of lapsing holds and abandoned payments',
    tables: ['payments'],
    part: /select tenant_id, id from payments where open and (capture_before|client_secret) is not null/,
    reason: 'finds expired rows by time; changes name the tenant',
  },
  {
    name: 'sweep of test clocks',
    tables: ['test_clocks'],
    part: /^ ?select from test_clocks ?$|from test_clocks c where c\.advance_to is not null or/,
    reason: 'finds the clocks with something to do; changes name the tenant',
  },
  {
    name: 'scan of the backlogs of endpoints, and the oldest recovery',
    tables: ['webhook_due', 'webhook_recoveries'],
    part: /^ ?select from webhook_(due|recoveries where status <> \$\d+) ?$|from webhook_due w where \(w\.tenant_id, w\.endpoint_id\) > \(v\.tenant_id, v\.endpoint_id\)|from webhook_recoveries (r )?where (r\.)?status <> \$\d+ and (r\.)?after_at is (not )?null/,
    reason: 'finds due rows of all tenants; changes name the tenant',
  },
  {
    name: 'sweep of old keys',
    tables: ['idempotency_keys'],
    part: /ctid = any\(array\(|select ctid from idempotency_keys where created_at </,
    reason: 'deletes by age',
  },
  {
    name: 'scan of the reconciler and the audit',
    tables: [
      'payments',
      'refunds',
      'disputes',
      'payouts',
      'top_ups',
      'verifications',
      'ai_tasks',
      'messages',
      'drifts',
    ],
    part: /\(p\.tenant_id, p\.created_at\) > \(\$\d+, \$\d+\)/,
    reason: 'scans all tenants',
  },
  {
    name: 'drifts of unknown jobs',
    tables: ['jobs', 'drifts'],
    part: /from jobs j cross join lateral \(\) u where j\.finished_at is null and j\.unknown_since is not null and j\.resource_id is not null|update drifts d set resolved_at = now\(\) where d\.resolved_at is null and d\.state = \$\d+ and not exists|from drifts where resolved_at is null and not exists \(\) group by state/,
    reason: 'updates all drifts at once; opened drifts name the tenant',
  },
  {
    name: 'acts of operators',
    tables: ['jobs', 'job_history', 'notifications'],
    part: /(?!)/,
    statement:
      /select before\.state as before, after\.state as after|insert into operator_act_items|^ ?select state, operation is not null as has_call|^ ?select name(, request)? from jobs where id = \$1 ?$|select before\.\*, after\.lease_token from before/,
    reason: 'operators belong to no tenant; changes name the tenant of the row',
  },
  {
    name: 'searches of operators',
    tables: [
      'jobs',
      'job_history',
      'drifts',
      'notifications',
      'payments',
      'refunds',
      'disputes',
      'payouts',
      'top_ups',
      'verifications',
      'ai_tasks',
      'messages',
    ],
    part: /(?!)/,
    statement:
      /join tenants t on t\.id = [djn]\.tenant_id|^ ?select at, id from \(select j\.id|count\(\*\) as read from \(|^ ?select from jobs where id = \$\d+ union all select from job_history|^ ?select distinct \* from \( select r\.tenant_id|from jobs j where j\.finished_at is null and j\.(unknown|failing)_since is not null limit/,
    reason: 'operators read all tenants',
  },
  {
    name: 'proposals of operators',
    tables: ['proposals'],
    part: /\bproposals\b/,
    reason: 'operators belong to no tenant; changes name the tenant of the row',
  },
  {
    name: 'tenant of a payout that operators fail',
    tables: ['payouts'],
    part: /^ ?select tenant_id from payouts where id = \$\d+ ?$/,
    reason: 'an operator names the payout; the row has the tenant',
  },
  {
    name: 'audit log of the installation',
    tables: ['audit_entries'],
    part: /^ ?select \* from audit_entries where \$\d+ (and seq (=|<) \$\d+ )*order by seq desc limit|select e\.seq from audit_entries e where e\.at < s\.switched_at order by/,
    reason: 'operators read all tenants',
  },
  {
    name: 'recent changes for the audit',
    tables: ['events', 'ledger_transfers', 'jobs', 'job_history'],
    part: /from (events e|ledger_transfers t) where [et]\.created_at >= \$\d+ and [et]\.created_at < \$\d+|from (jobs|job_history) where (finished_at is null and created_at|finished_at) >= \$\d+ and \w+ < \$\d+ ?$/,
    reason: 'finds changes by time; the checks name the tenant',
  },
  {
    name: 'roll-ups',
    tables: ['jobs', 'job_history', 'tenant_rollups', 'payment_days', 'payment_cursors', 'event_sequences'],
    part: /from (jobs|job_history) where \(finished_at, id\) > \(\$\d+, \$\d+\) and finished_at < \$|as stage from jobs j where finished_at is null|\$\d+ from jobs where finished_at >= \$|from tenant_rollups ([rto] )?where ([rto]\.)?resolution = |from payment_days where day < |from event_sequences s left join payment_cursors c on c\.tenant_id = s\.tenant_id where s\.last_sequence > /,
    reason: 'figures over all tenants for operators; figures of one tenant name it',
  },
  {
    name: 'all pauses, for operators',
    tables: ['pauses'],
    part: /from only pauses p left join tenants t on t\.id = p\.tenant_id order by/,
    reason: 'a pause need not belong to a tenant',
  },
  {
    name: 'audit',
    tables: [
      'payments',
      'feed_restarts',
      'refunds',
      'disputes',
      'payouts',
      'top_ups',
      'verifications',
      'customers',
      'merchants',
      'recipients',
      'ai_tasks',
      'messages',
      'webhook_endpoints',
      'event_sequences',
      'feed_entries',
      'webhook_endpoints',
      'webhook_deliveries',
      'webhook_due',
      'webhook_recoveries',
      'message_attachments',
      'suppressions',
      'jobs',
      'all_jobs',
      'job_attempts',
      'job_attempt_history',
      'all_provider_calls',
      'events',
      'notifications',
      'all_notifications',
      'drifts',
      'ledger_accounts',
      'ledger_transfers',
      'idempotency_keys',
      'audit_entries',
    ],
    part: /(?!)/,
    statement: /^ ?select \$\d+ as check, found\.\* from \(/,
    reason: 'the audit covers all books; each problem names its tenant',
  },
]

type ReferenceWithoutTenant = { table: string; part: string }

/**
 * Returns a statement's references to tenants' `tables` that neither name the tenant nor are allowed. A reference names
 * the tenant if its part of the statement (CTE, sub-query, branch of a union) compares the table's `tenant_id` or, in
 * an insert, writes this column.
 */
export function referencesWithoutTenant(
  statement: string,
  tables: ReadonlySet<string>,
): ReferenceWithoutTenant[] {
  const text = statement
    .replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll('"', '')
    .toLowerCase()
  const found: ReferenceWithoutTenant[] = []
  for (const match of text.matchAll(REFERENCE)) {
    const { keyword, table, alias } = match.groups as { keyword: string; table: string; alias?: string }
    if (!tables.has(table)) continue
    const { part, before } = clauseAround(text, match.index)
    // A comma before the first `from`, `update` or `using` separates columns.
    if (keyword === ',' && !/\b(from|update|using)\b/.test(before)) continue
    const known = alias !== undefined && !KEYWORDS.has(alias) ? alias : undefined
    const names_tenant =
      keyword === 'into'
        ? columnsAfter(text, match.index).includes('tenant_id')
        : namesTenant(part, keyword, known)
    if (
      names_tenant ||
      ALLOWED.some(
        (each) => each.tables.includes(table) && (each.part.test(part) || each.statement?.test(text)),
      )
    )
      continue
    found.push({ table, part: part.trim() })
  }
  return found
}

const REFERENCE =
  /(?<keyword>\b(?:from|join|update|into|using)|,) (?=(?:only |lateral )?(?:public\.)?(?<table>[a-z_]+)(?: (?:as )?(?<alias>[a-z_]+))?(?![a-z_.]))/g
const KEYWORDS = new Set(
  'set where on order group having limit for union left right inner cross full join values select returning using'.split(
    ' ',
  ),
)

function namesTenant(part: string, keyword: string, alias: string | undefined): boolean {
  if (alias !== undefined)
    return new RegExp(`\\b${alias}\\.tenant_id (=|is not distinct from) |= ${alias}\\.tenant_id\\b`).test(
      part,
    )
  // The assignments of an update are not conditions.
  const conditions = keyword === 'update' ? part.slice(part.indexOf(' where ')) : part
  return /(?<![.\w])tenant_id (=|is not distinct from) /.test(conditions)
}

function columnsAfter(text: string, index: number): string[] {
  const open = text.indexOf('(', index)
  return text.slice(open + 1, text.indexOf(')', open)).split(/, ?/)
}

/**
 * The text within the nearest brackets around `index`, without sub-queries and without other branches of a union, and
 * the portion of this text before `index`.
 */
function clauseAround(text: string, index: number): { part: string; before: string } {
  let start = index
  for (let depth = 0; start > 0; start -= 1) {
    if (text[start - 1] === ')') depth += 1
    else if (text[start - 1] === '(' && depth-- === 0) break
  }
  let part = ''
  let at = 0
  for (let position = start, depth = 0, skipped = -1; position < text.length; position += 1) {
    const sign = text[position]!
    if (position === index) at = part.length
    if (sign === ')') {
      if (depth === 0) break
      depth -= 1
      if (skipped === depth) skipped = -1
    }
    if (skipped === -1) part += sign
    if (sign === '(') {
      if (skipped === -1 && /^ ?(select|with|insert|update|delete|values)\b/.test(text.slice(position + 1)))
        skipped = depth
      depth += 1
    }
  }
  const unions = [...part.matchAll(/ union (?:all )?/g)].map((match) => [
    match.index,
    match.index + match[0].length,
  ])
  const begin = unions.findLast(([, end]) => end! <= at)?.[1] ?? 0
  const finish = unions.find(([from]) => from! > at)?.[0] ?? part.length
  return { part: part.slice(begin, finish), before: part.slice(begin, at) }
}

/** Whether the statement updates deliveries and selects their partition, which can crash PostgreSQL 18. */
export function selectsUpdatedPartition(statement: string): boolean {
  return /update webhook_deliveries d\b(?:(?!\breturning\b)[^])*?\bd\.created_at\s*=/.test(statement)
}

/**
 * Audits all statements of the processes' users on this server. Returns a text per violation. Throws if the server has
 * no or incomplete statistics.
 */
export async function auditStatements(server_url: string, template: string): Promise<string[]> {
  const sql = postgres(server_url, { max: 1, onnotice: () => {} })
  try {
    const [found] = await sql`select from pg_database where datname = ${template}`
    if (found === undefined) return []
    const [info] = await sql<{ dealloc: string }[]>`select dealloc from pg_stat_statements_info`
    if (info?.dealloc !== '0')
      throw new Error('pg_stat_statements has dropped statements: increase pg_stat_statements.max.')
    const statements = await sql<{ query: string }[]>`
      select distinct query from pg_stat_statements s join pg_roles r on r.oid = s.userid
      where r.rolname = any(${USERS_OF_PROCESSES})`
    const tables = await tenantTables(server_url, template)
    return statements.flatMap(({ query }) => [
      ...referencesWithoutTenant(query, tables).map(
        ({ table, part }) => `A statement touches ${table} without its tenant_id:\n  ${part}\nin\n${query}\n`,
      ),
      ...(selectsUpdatedPartition(query)
        ? [`A statement updates deliveries by their creation time (see hasDeliveryId):\n${query}\n`]
        : []),
    ])
  } finally {
    await sql.end()
  }
}

async function tenantTables(server_url: string, database: string): Promise<Set<string>> {
  const sql = postgres(server_url, { database, max: 1, onnotice: () => {} })
  try {
    const rows = await sql<{ name: string }[]>`
      select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id'`
    return new Set(rows.map(({ name }) => name))
  } finally {
    await sql.end()
  }
}
