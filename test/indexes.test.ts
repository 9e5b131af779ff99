// The list of indexes in the documentation, and the lookups that a plan for an empty table must not turn into scans.
import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createDatabase } from '#test/databases.ts'

const TABLES = [
  'jobs',
  'job_history',
  'payments',
  'notifications',
  'idempotency_keys',
  'ledger_accounts',
  'ledger_transfers',
  'event_outbox',
  'unsequenced_events',
  'sequenced_events',
  'feed_entries',
  'webhook_deliveries',
]

let sql: Sql

beforeAll(async () => {
  const database = await createDatabase()
  sql = connectDatabase(database.url, { max: 1, application_name: 'indexes' })
  return async () => {
    await sql.end()
    await database.drop()
  }
})

test('the documentation lists the indexes of the busy tables, each with existing files', async () => {
  const document = await readFile(new URL('../docs/architecture.md', import.meta.url), 'utf8')
  const [, list = ''] = /\n## Indexes of the busy tables\n([^]*?)\n## /.exec(document) ?? []
  const named = [...list.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, names]) =>
    [...names!.matchAll(/`(\w+)`/g)].map(([, name]) => name!),
  )
  const indexes = await sql<{ name: string }[]>`
    select indexrelid::regclass::text as name from pg_index where indrelid = any(${TABLES}::text[]::regclass[])`
  expect(named.toSorted()).toEqual(indexes.map(({ name }) => name).toSorted())
  for (const [, file] of list.matchAll(/`(domain\/[^`]+)`/g))
    await readFile(new URL(`../src/${file}`, import.meta.url), 'utf8')
})

test('a lookup of a job that is planned while the table is empty reads the job and not those of its tenant', async () => {
  const usedBy = async (condition: string) => {
    const plan = await sql.unsafe<{ 'QUERY PLAN': string }[]>(
      `explain (generic_plan) select state from jobs where tenant_id = $1 and ${condition}`,
    )
    return /using (\w+) on jobs/.exec(plan.map((line) => line['QUERY PLAN']).join('\n'))?.[1]
  }
  expect(await usedBy('id = $2')).toBe('jobs_pkey')
  expect(await usedBy('resource_id = $2')).toBe('jobs_by_resource')
})

test('only one index can serve a statement that reads open jobs and has no other condition', async () => {
  const conditions = await sql<{ name: string; condition: string }[]>`
    select indexrelid::regclass::text as name, pg_get_expr(indpred, indrelid) as condition from pg_index
    where indrelid = 'jobs'::regclass and indpred is not null`
  const usable = conditions.filter(({ condition }) => condition === '(finished_at IS NULL)')
  expect(usable.map(({ name }) => name)).toEqual(['jobs_open'])
})
