// PostgreSQL of the system under torture, with PgBouncer and the proxies before it.
import { join } from 'node:path'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { startPgBouncer, type PgBouncer } from '#test/pgbouncer.ts'
import type { Proxy } from '#test/proxy.ts'
import { startRestorablePostgres, type RestorablePostgres } from '#test/restorable.ts'
import { passwordsOf } from '#test/users.ts'

/** PgBouncer's connections for each user: enough for the load, but fewer than the pools of its processes have. */
const SERVER_CONNECTIONS = '15'
const SETTINGS = { shared_buffers: '128MB', max_connections: '200' }

type Database = {
  /** The server that is the primary one now. */
  primary: () => EmbeddedPostgres
  restorable: RestorablePostgres | null
  pooler: PgBouncer | null
  /** The address of the primary server, without the faults of the processes' connections. */
  url: string
  /** The connections of the processes. */
  wire: Proxy
  moveTo: (url: string) => void
}

/** Starts the servers. `wired` starts a proxy. */
export async function startDatabase(
  folder: string,
  cleanup: AsyncDisposableStack,
  wired: (url: string) => Promise<Proxy>,
  { pooler: is_pooled = false, restorable: is_restorable = false },
): Promise<Database> {
  const { restorable, primary } = await startServer(join(folder, 'postgres'), cleanup, is_restorable)
  const primary_url = primary().url
  // The connections of PgBouncer and of the torture move with the address of the database too.
  const direct = is_restorable ? await wired(primary_url) : null
  const url = direct?.url ?? primary_url
  const pooler = is_pooled
    ? await startPgBouncer(url, passwordsOf(url), { default_pool_size: SERVER_CONNECTIONS })
    : null
  if (pooler) cleanup.defer(() => pooler.close())
  const wire = await wired(pooler?.through(url) ?? primary_url)
  return {
    primary,
    restorable,
    pooler,
    url,
    wire,
    moveTo(other_url) {
      for (const each of [direct, pooler ? null : wire]) {
        each?.forwardTo(other_url)
        each?.cut()
      }
    },
  }
}

async function startServer(
  folder: string,
  cleanup: AsyncDisposableStack,
  is_restorable: boolean,
): Promise<Pick<Database, 'restorable' | 'primary'>> {
  if (!is_restorable) {
    const postgres = await startPostgres({ data_dir: folder, settings: SETTINGS })
    cleanup.defer(() => postgres.stop())
    return { restorable: null, primary: () => postgres }
  }
  const restorable = await startRestorablePostgres(join(folder, 'primary'), SETTINGS)
  cleanup.defer(() => restorable.stop())
  return { restorable, primary: () => restorable.postgres }
}
