// A process whose database ends a connection that it has reserved: what it asks on it next is written to nothing. With THROWS it
// then fails as no process should.
import postgres from 'postgres'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '#core/run.ts'

await run('', async () => {
  const open = () => postgres(process.env.DATABASE_URL!, { max: 1, fetch_types: false, onnotice: () => {} })
  const [sql, other] = [open(), open()]
  await sql`select 1`
  const reserved = await sql.reserve()
  const [row] = await reserved<{ pid: number }[]>`select pg_backend_pid() as pid`
  await other`select pg_terminate_backend(${row!.pid})`
  await sleep(200)
  reserved`select 1`.catch(() => {})
  await sleep(200)
  process.stdout.write('it lives\n')
  if (process.env.THROWS)
    setTimeout(() => {
      throw new TypeError(process.env.THROWS)
    })
  return { close: async () => void (await Promise.all([other.end(), sql.end({ timeout: 0 })])) }
})
