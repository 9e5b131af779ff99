// Steps outside a transaction. A step that was interrupted is begun again, and drops what it left incomplete.
import type postgres from 'postgres'
import type { Migration, NewIndex } from './files.ts'
import { retryWhileLocked, waitWithLongTimeout, type LockWait } from './lock-waits.ts'

/** `name`: the name of the file. */
type OutsideStep = { sql: postgres.Sql; name: string; wait: LockWait }

/** Runs the statement of the file. Errors: ConfigError if locks prevent it; those of the statement. */
export async function runOutsideTransaction(
  sql: postgres.Sql,
  { name, text, kind, index, rebuilds }: Migration,
  wait: LockWait,
): Promise<void> {
  const step = { sql, name, wait }
  if (kind === 'batches') return await retryWithShortWaits(step, text)
  if (rebuilds !== null) await dropIncomplete(step, rebuilds)
  if (index === null) return await runWithLongWait(step, text)
  if (await isPartitioned(sql, index.table)) await buildOnPartitions(step, index)
  else await build(step, index)
}

/** Builds the index unless it is complete: the run that built it may have ended before it recorded the migration. */
async function build(step: OutsideStep, { unique, name: index, table, definition }: NewIndex): Promise<void> {
  await dropIncomplete(step, index)
  const [complete] = await step.sql`select where to_regclass(${index}) is not null`
  if (complete === undefined)
    await runWithLongWait(step, `create ${unique}index concurrently ${index} on ${table} ${definition}`)
}

/** PostgreSQL has no command for this: the index of the table is valid when each partition has attached its own. */
async function buildOnPartitions(step: OutsideStep, index: NewIndex): Promise<void> {
  const { unique, name: parent, table, definition } = index
  const create = `create ${unique}index if not exists ${parent} on only ${table} ${definition}`
  await retryWithShortWaits(step, create)
  const without = await step.sql<{ partition: string }[]>`
    select c.relname as partition from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(${table}) and not exists (
      select from pg_inherits attached join pg_index x on x.indexrelid = attached.inhrelid
      where attached.inhparent = to_regclass(${parent}) and x.indrelid = c.oid)
    order by c.relname`
  for (const { partition } of without) {
    const child = `${parent}${partition.slice(table.length)}`
    await build(step, { ...index, name: child, table: partition })
    await retryWithShortWaits(step, `alter index ${parent} attach partition ${child}`)
  }
}

async function isPartitioned(sql: postgres.Sql, table: string): Promise<boolean> {
  const [found] = await sql`select from pg_class where oid = to_regclass(${table}) and relkind = 'p'`
  return found !== undefined
}

/** Drops an invalid index of this name, and incomplete copies of this index or of the indexes of this table. */
async function dropIncomplete(step: OutsideStep, of: string): Promise<void> {
  const incomplete = await step.sql<{ index: string }[]>`
    select format('%I', c.relname) as index from pg_index i join pg_class c on c.oid = i.indexrelid
    where not i.indisvalid and c.relkind = 'i' and c.relnamespace = current_schema()::regnamespace
      and (c.relname = ${of} or c.relname ~ ('^' || ${of} || '_cc(new|old)[0-9]*$')
        or (i.indrelid = to_regclass(${of}) and c.relname ~ '_cc(new|old)[0-9]*$'))`
  for (const { index } of incomplete)
    await runWithLongWait(step, `drop index concurrently if exists ${index}`)
}

async function retryWithShortWaits({ sql, name, wait }: OutsideStep, text: string): Promise<void> {
  await retryWhileLocked(name, wait, (lock_timeout_ms) => runWithin(sql, lock_timeout_ms, text))
}

async function runWithLongWait({ sql, name, wait }: OutsideStep, text: string): Promise<void> {
  await waitWithLongTimeout(name, wait, (lock_timeout_ms) => runWithin(sql, lock_timeout_ms, text))
}

async function runWithin(sql: postgres.Sql, lock_timeout_ms: number, text: string): Promise<void> {
  await sql.unsafe(`set lock_timeout = ${lock_timeout_ms}`)
  await sql.unsafe('set statement_timeout = 0')
  await sql.unsafe('set transaction_timeout = 0')
  try {
    await sql.unsafe(text)
  } finally {
    await sql.unsafe('reset lock_timeout')
    await sql.unsafe('reset statement_timeout')
    await sql.unsafe('reset transaction_timeout')
  }
}
