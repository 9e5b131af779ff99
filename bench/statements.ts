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
 * Writes the slowest statements to `file` and returns a line for each: in total, or per run if `of` is the number of
 * runs.
 */
export async function writeStatements(sql: Sql, file: string, of: number | null = null): Promise<string[]> {
  const rows = await sql<{ figures: string; query: string }[]>`
    select format('%s ms%s, %s calls, %s rows, %s blocks hit, %s WAL bytes, %s ms each',
        round((total_exec_time / each)::numeric, 3), case when ${of}::integer is not null then ' a story' end,
        round((calls / each)::numeric, 2), round((rows / each)::numeric, 2), round((shared_blks_hit / each)::numeric, 1),
        round(wal_bytes / each::numeric), round(mean_exec_time::numeric, 3)) as figures, query
    from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
    cross join (select coalesce(${of}::integer, 1)::float8 as each) n
    order by total_exec_time desc limit ${MAX_STATEMENTS}`.catch(() => [])
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, rows.map(({ figures, query }) => `${figures}\n${query}\n\n`).join(''))
  return rows.map(({ figures, query }) => `${figures}: ${query.replaceAll(/\s+/g, ' ').slice(0, 90)}`)
}
