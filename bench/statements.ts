// The statements with the most time, by pg_stat_statements. Empty without the extension.
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Sql } from '#core/db.ts'

const MAX_STATEMENTS = 25

/** Resets the statistics of this database. */
export async function resetStatements(sql: Sql): Promise<void> {
  await sql`create extension if not exists pg_stat_statements`.catch(() => {})
  await sql`
    select pg_stat_statements_reset(0, oid, 0) from pg_database where datname = current_database()`.catch(
    () => {},
  )
}

/**
 * Writes the slowest statements to `file` and returns a line for each. `operations`: the number of measured operations,
 * by which the figures are divided. Null: the figures are totals.
 */
export async function writeStatements(
  sql: Sql,
  file: string,
  operations: number | null = null,
): Promise<string[]> {
  const rows = await sql<{ figures: string; query: string }[]>`
    select format('%s ms%s, %s calls, %s rows, %s blocks hit, %s WAL bytes, %s ms each',
        round((total_exec_time / divisor)::numeric, 3),
        case when ${operations}::integer is not null then ' an operation' end,
        round((calls / divisor)::numeric, 2), round((rows / divisor)::numeric, 2),
        round((shared_blks_hit / divisor)::numeric, 1), round(wal_bytes / divisor::numeric),
        round(mean_exec_time::numeric, 3)) as figures, query
    from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
    cross join (select coalesce(${operations}::integer, 1)::float8 as divisor) n
    order by total_exec_time desc limit ${MAX_STATEMENTS}`.catch(() => [])
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, rows.map(({ figures, query }) => `${figures}\n${query}\n\n`).join(''))
  return rows.map(({ figures, query }) => `${figures}: ${query.replaceAll(/\s+/g, ' ').slice(0, 90)}`)
}
