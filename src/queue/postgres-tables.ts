// The tables of BullMQ in PostgreSQL: made and upgraded, and who may use them.
import {
  LATEST_SCHEMA_VERSION,
  SchemaMigrationRequiredError,
  assertSchemaCompatibility,
  runMigrations,
} from 'bullmq'
import { Client } from 'pg'
import { limitLocks, lockError } from '#core/migrate.ts'
import type { PostgresPlace } from './postgres.ts'
import { defaultSchema } from './settings.ts'

/**
 * Creates or upgrades BullMQ's tables. BullMQ takes an advisory lock for that, which anybody may take who can
 * connect: so it is asked only where something has to be done, and waits no longer than our own migrations.
 */
export async function migratePostgres({
  database_url,
  schema = defaultSchema,
}: PostgresPlace): Promise<void> {
  const client = new Client({ connectionString: database_url })
  await client.connect()
  try {
    await client.query(limitLocks({ in_transaction: false }))
    if (!(await isMigrated(client, schema))) await runMigrations(client, schema)
    await client.query(grants(schema))
  } catch (error) {
    throw lockError(error)
  } finally {
    await client.end()
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

/** Processes that do not own BullMQ's tables use them as members of `sluice_service`, where there is that role. */
function grants(schema: string): string {
  const to = `in schema ${schema} to sluice_service`
  return `do $$ begin
    if not exists (select from pg_roles where rolname = 'sluice_service') then return; end if;
    grant usage on schema ${schema} to sluice_service;
    grant select, insert, update, delete on all tables ${to};
    grant usage on all sequences ${to};
    -- Which of them were made already is the owner's to know.
    revoke insert, update, delete on ${schema}.migration from sluice_service;
    revoke execute on all functions in schema ${schema} from public;
    grant execute on all functions ${to};
  end $$`
}
