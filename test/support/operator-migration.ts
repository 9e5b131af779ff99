// An operator who migrates while a session that forgot its `begin` holds locks.
import postgres from 'postgres'
import { startProcess } from './process.ts'

/** `tries`: how often locks prevented a step. `output`: what the command printed. */
export type OperatorMigration = { tries: number; duration_ms: number; output: string }

/**
 * Runs `migrate` of these sources, and then that of a release with further migrations, while a session has locked rows
 * of `payments` and `jobs` and is idle in its transaction: a step of these sources may build an index, which waits for
 * the session without tries.
 * When the command has reported `reports` tries and this session, the operator ends the session. Throws if the command
 * fails or does not name the session.
 */
export async function migrateWithForgottenSession(
  release: { path: string },
  database_url: string,
  env: Record<string, string>,
  reports: number,
): Promise<OperatorMigration> {
  const own = await startProcess('src/commands/migrate.ts', { env })
  const { code: own_code } = await own.ended
  if (own_code !== 0) throw new Error(`the migration of these sources failed: ${own.output()}`)
  const forgotten = postgres(database_url, {
    max: 1,
    connection: { application_name: 'forgotten' },
    onnotice: () => {},
  })
  const operator = postgres(database_url, { max: 1 })
  try {
    const session = await forgotten.reserve()
    await session`begin`
    await session`update payments set updated_at = updated_at where ctid = (select min(ctid) from payments)`
    const [{ pid }] = await session<
      [{ pid: number }]
    >`select pg_backend_pid() as pid from (select from jobs limit 1) read
      right join (values (1)) one on true`
    const started_at = performance.now()
    const migration = await startProcess('src/commands/migrate.ts', { root: release.path, env })
    await migration.waitForLine(`try ${reports} of `)
    await migration.waitForLine(`pid ${pid} (`)
    await operator`select pg_terminate_backend(${pid})`
    const { code } = await migration.ended
    if (code !== 0) throw new Error(`the migration failed: ${migration.output()}`)
    const output = migration.output()
    return {
      tries: output.match(/: try \d+ of /g)!.length,
      duration_ms: performance.now() - started_at,
      output,
    }
  } finally {
    await forgotten.end({ timeout: 0 })
    await operator.end()
  }
}
