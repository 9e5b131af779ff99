// Starts PostgreSQL of the system under torture.
import { join } from 'node:path'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { startRestorablePostgres, type RestorablePostgres } from '#test/restorable.ts'

/** Starts PostgreSQL. `primary` returns the server that is the primary one at that moment. */
export async function startDatabase(
  folder: string,
  cleanup: AsyncDisposableStack,
  is_restorable: boolean,
): Promise<{ restorable: RestorablePostgres | null; primary: () => EmbeddedPostgres }> {
  const settings = { shared_buffers: '128MB', max_connections: '200' }
  if (!is_restorable) {
    const data_dir = join(folder, 'postgres')
    const postgres = await startPostgres({ data_dir, settings })
    cleanup.defer(() => postgres.stop())
    return { restorable: null, primary: () => postgres }
  }
  const restorable = await startRestorablePostgres(join(folder, 'postgres', 'primary'), settings)
  cleanup.defer(() => restorable.stop())
  return { restorable, primary: () => restorable.postgres }
}
