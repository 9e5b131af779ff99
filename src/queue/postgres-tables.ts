// Creates and upgrades BullMQ's tables in PostgreSQL, and grants their use.
import {
  LATEST_SCHEMA_VERSION,
  SchemaMigrationRequiredError,
  assertSchemaCompatibility,
  runMigrations,
} from 'bullmq'
import { Client } from 'pg'
import { QUEUES } from '#core/config/queues.ts'
import {
  blockingSessionsOf,
  retryWhileLocked,
  TRIES,
  type BlockingSession,
  type Tries,
} from '#core/migrate/lock-waits.ts'
import { clientOptions } from './postgres-stream.ts'
import type { PostgresAddress } from './postgres.ts'
import { defaultSchema } from './settings.ts'

/**
 * Creates or upgrades BullMQ's tables. BullMQ waits for an advisory lock, which any database user can hold. So BullMQ
 * is called only if an upgrade is needed, and its waits are as short as those of our own migrations. `report` is called
 * for each try that a lock prevented. Errors: ConfigError after the last try.
 */
export async function migrateBullTables(
  { database_url, schema = defaultSchema }: PostgresAddress,
  report: (text: string) => void = () => {},
  tries: Tries = TRIES,
): Promise<void> {
  const [client, observer] = [
    new Client(clientOptions(database_url)),
    new Client(clientOptions(database_url)),
  ]
  await Promise.all([client.connect(), observer.connect()])
  try {
    const session = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const pid = session.rows[0]!.pid
    const findBlockingSessions = async () =>
      (await observer.query<BlockingSession>(blockingSessionsOf(pid))).rows
    const wait = { findBlockingSessions, report, tries }
    await retryWhileLocked("BullMQ's tables", wait, async (lock_timeout_ms) => {
      await client.query(`set transaction_timeout = 0; set lock_timeout = ${lock_timeout_ms}`)
      if (!(await isMigrated(client, schema))) await runMigrations(client, schema)
      await client.query(allowOnlyOurQueues(schema))
      await client.query(grants(schema))
    })
  } finally {
    await Promise.all([client.end(), observer.end()])
  }
}

async function isMigrated(client: Client, schema: string): Promise<boolean> {
  try {
    return (await assertSchemaCompatibility(client, schema)) >= LATEST_SCHEMA_VERSION
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return false
    throw error
  }
}

/**
 * Restricts the queues to ours: a wake-up of a new queue would create a sequence with the owner's rights. Existing
 * jobs of other queues stay.
 */
function allowOnlyOurQueues(schema: string): string {
  const names = QUEUES.map((name) => `'${name}'`).join(', ')
  const table = `'${schema}.job'::regclass`
  return `do $$ begin
    if exists (select from pg_constraint where conrelid = ${table} and conname = 'sluice_queues'
      and obj_description(oid, 'pg_constraint') = $names$${names}$names$) then return; end if;
    alter table ${schema}.job drop constraint if exists sluice_queues,
      add constraint sluice_queues check (queue in (${names})) not valid;
    comment on constraint sluice_queues on ${schema}.job is $names$${names}$names$;
  end $$`
}

/** Processes that do not own BullMQ's tables use them as members of the role `sluice_service`, if it exists. */
function grants(schema: string): string {
  const to = `in schema ${schema} to sluice_service`
  return `do $$ begin
    if not exists (select from pg_roles where rolname = 'sluice_service') then return; end if;
    grant usage on schema ${schema} to sluice_service;
    grant select, insert, update, delete on all tables ${to};
    grant usage on all sequences ${to};
    -- Only the owner of the tables records which versions were applied.
    revoke insert, update, delete on ${schema}.migration from sluice_service;
    revoke execute on all functions in schema ${schema} from public;
    grant execute on all functions ${to};
    -- This function creates a temporary table and the sequence of a new queue. The processes may create neither, so
    -- the function runs with its owner's rights.
    alter function ${schema}.add_jobs_bulk(text, jsonb) security definer set search_path = ${schema}, pg_temp;
  end $$`
}
