// Finds what a migration does against the rules for authors. PostgreSQL reports it: the migration runs in a
// transaction that is rolled back, and its locks and the changes of the catalog are read.
import type postgres from 'postgres'
import { LOCK_MODES, type LockMode, type Migration } from '#core/migrate/files.ts'

const MODES = Object.keys(LOCK_MODES) as LockMode[]
const RUNS_OUTSIDE =
  /^(?:create (?:unique )?index concurrently|reindex .*concurrently|drop index concurrently|alter table .+ detach partition .+ (?:concurrently|finalize)|do )/i

type Fact = { fact: string; name: string }

/** The violations, each as a sentence. Errors: those of the statements. */
export async function ruleViolations(sql: postgres.Sql, migration: Migration): Promise<string[]> {
  return migration.kind === 'transaction'
    ? await violationsOfTransaction(sql, migration)
    : violationsOfStep(migration)
}

function violationsOfStep({ text, kind, locks }: Migration): string[] {
  const statement = text.replace(/--.*$/gm, '').replace(/\s+/g, ' ').trim()
  return [
    ...(RUNS_OUTSIDE.test(statement) ? [] : ['it can run in a transaction']),
    ...(locks.length > 0 ? [] : ['it does not name the table that it locks']),
    ...(kind !== 'batches' || /\blimit \d+.*\bcommit\b/.test(statement)
      ? []
      : ['it does not commit batches']),
  ]
}

async function violationsOfTransaction(sql: postgres.Sql, migration: Migration): Promise<string[]> {
  let violations: string[] = []
  const undo = new Error('rolled back')
  await sql
    .begin(async (tx) => {
      await tx`create temporary table tables_before on commit drop as
        select oid, relname, pg_relation_filenode(oid) as file, coalesce(pg_partition_root(oid), oid) as root
        from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v')
          -- A view of the catalog, which needs no rows. Gauges and audits read it, so a step may have to try again.
          and relname <> 'partitions'`
      await tx`create temporary table columns_before on commit drop as
        select attrelid, attnum from pg_attribute join tables_before t on t.oid = attrelid`
      await tx`create temporary table facts_before on commit drop as
        select conrelid as relation, oid from pg_constraint union all select indrelid, indexrelid from pg_index`
      await tx.unsafe(migration.text)
      const facts = await changesOfTables(tx)
      violations = [
        ...facts.map(({ fact, name }) => `it ${fact} ${name}`),
        ...(await undeclaredLocks(tx, migration)),
      ]
      throw undo
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error
    })
  return violations
}

/** The changes that read or write all rows of an existing table while other sessions wait. */
async function changesOfTables(tx: postgres.TransactionSql): Promise<Fact[]> {
  return await tx<Fact[]>`
    select 'rewrites' as fact, relname as name from tables_before
    where pg_relation_filenode(oid) is distinct from file
    union all
    select 'builds an index inside a transaction on', t.relname from tables_before t join pg_index i on i.indrelid = t.oid
    where not exists (select from facts_before f where f.oid = i.indexrelid)
    union all
    select 'checks all rows of', t.relname from tables_before t join pg_constraint c on c.conrelid = t.oid
    where c.convalidated and c.contype in ('c', 'f', 'n') and not exists (select from facts_before f where f.oid = c.oid)
      -- A new column that is not null has a default, which needs no check.
      and not (c.contype = 'n' and not exists (
        select from columns_before b where b.attrelid = t.oid and b.attnum = c.conkey[1]))
    order by 1, 2`
}

async function undeclaredLocks(tx: postgres.TransactionSql, { locks }: Migration): Promise<string[]> {
  const taken = await tx<{ name: string; mode: string; of_tenants: boolean }[]>`
    select distinct root.relname as name,
      lower(trim(regexp_replace(l.mode, '([A-Z])', ' \\1', 'g'), ' ')) as mode,
      exists (select from pg_attribute a where a.attrelid = root.oid and a.attname = 'tenant_id') as of_tenants
    from pg_locks l join tables_before t on t.oid = l.relation join pg_class root on root.oid = t.root
    where l.pid = pg_backend_pid() and l.locktype = 'relation' order by 1, 2`
  return taken.flatMap(({ name, mode: text, of_tenants }) => {
    const mode = MODES.find((each) => `${each} lock` === text)
    // Weaker locks conflict with nothing that processes do.
    if (mode === undefined || mode === 'access share') return []
    if (mode === 'row exclusive' && of_tenants) return [`it changes rows of ${name} in one transaction`]
    const declared = locks.find(({ table }) => table === name)
    return declared !== undefined && MODES.indexOf(declared.mode) >= MODES.indexOf(mode)
      ? []
      : [`it locks ${name} in ${mode} mode and does not say so`]
  })
}
