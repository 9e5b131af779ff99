// The databases of a run: on an embedded server, or on the operator's own.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import postgres from 'postgres'
import { migrate } from '#core/migrate.ts'
import { startPostgres } from '#start/postgres.ts'

/** Creates a database and returns its URL. `empty`: without our tables, for a floor. */
export type CreateDatabase = (content: 'migrated' | 'empty') => Promise<string>

/**
 * Opens the server of a run. `server_url`: the operator's own server, or null to start one in `folder`. `cleanup` drops
 * the databases and stops the server. The roles that the migrations create remain on the operator's server.
 */
export async function openDatabaseServer(
  cleanup: AsyncDisposableStack,
  { server_url, folder }: { server_url: string | null; folder: string },
): Promise<CreateDatabase> {
  const url = server_url ?? (await startEmbedded(cleanup, folder))
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  cleanup.defer(() => admin.end())
  return async (content) => {
    const name = `sluice_bench_${randomBytes(6).toString('hex')}`
    await admin.unsafe(`create database ${name}`)
    cleanup.defer(async () => void (await admin.unsafe(`drop database ${name} with (force)`)))
    const database_url = Object.assign(new URL(url), { pathname: `/${name}` }).href
    if (content === 'migrated') await migrate(database_url)
    return database_url
  }
}

async function startEmbedded(cleanup: AsyncDisposableStack, folder: string): Promise<string> {
  const server = await startPostgres({
    data_dir: join(folder, 'postgres'),
    // A checkpoint during one side's run would distort the comparison.
    settings: { max_wal_size: '8GB', checkpoint_timeout: '1h' },
  })
  cleanup.defer(() => server.stop())
  return server.url
}
