// Applies the SQL files of `migrations/`: the numbered ones in order, each once, forward only; then who may do what.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import postgres from 'postgres'

const FOLDER = new URL('../../migrations/', import.meta.url)
const LOCK = 7_583_240_117

/** Views that ask with the rights of who asks, and nulls that are not distinct, came with it. */
const OLDEST = 15

const NUMBERED = /^\d{4}_.+\.sql$/
const ROLES = 'roles.sql'

/**
 * Brings the database up to the newest migration; several processes may call it at once. Returns the names applied now.
 * `warn` hears what could not be set up and is not essential. Throws when a file that was applied has since been changed, and when
 * the server is too old.
 */
export async function migrate(
  database_url: string,
  warn: (text: string) => void = () => {},
): Promise<string[]> {
  const sql = postgres(database_url, {
    max: 1,
    fetch_types: false,
    onnotice({ severity, message }) {
      if (severity === 'WARNING') warn(message ?? '')
    },
  })
  try {
    const [server] = await sql<{ version: string; major: number }[]>`
      select current_setting('server_version') as version, current_setting('server_version_num')::integer / 10000 as major`
    if (server!.major < OLDEST)
      throw new Error(`PostgreSQL ${OLDEST} or newer is needed; this is ${server!.version}`)
    return await sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(${LOCK})`
      await tx`create table if not exists schema_migrations (
        name text primary key, checksum text not null, applied_at timestamptz not null default now())`
      const applied = new Map(
        (await tx<{ name: string; checksum: string }[]>`select name, checksum from schema_migrations`).map(
          (row) => [row.name, row.checksum],
        ),
      )
      const names = (await readdir(FOLDER)).filter((name) => NUMBERED.test(name)).sort()
      const fresh: string[] = []
      for (const name of names) {
        const text = await readFile(new URL(name, FOLDER), 'utf8')
        const checksum = createHash('sha256').update(text).digest('hex')
        const before = applied.get(name)
        if (before === checksum) continue
        if (before !== undefined) throw new Error(`migration ${name} was changed after it was applied`)
        await tx.unsafe(text)
        await tx`insert into schema_migrations (name, checksum) values (${name}, ${checksum})`
        fresh.push(name)
      }
      await tx.unsafe(await readFile(new URL(ROLES, FOLDER), 'utf8'))
      return fresh
    })
  } finally {
    await sql.end()
  }
}
