// A process whose database ends a reserved connection, so that the next statement is written to a closed socket. The
// database also ends a connection of the queue's driver that has no error handler. If the variable THROWS is set, the
// process then throws an unhandled error.
import postgres from 'postgres'
import { Client } from 'pg'
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
  const client = new Client({ connectionString: process.env.DATABASE_URL! })
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  await other`select pg_terminate_backend(${rows[0]!.pid})`
  await sleep(200)
  const reset = new Client({ connectionString: process.env.DATABASE_URL! })
  await reset.connect()
  const loss = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })
  loss.stack = `Error: read ECONNRESET\n    at TCP.onStreamRead (node:internal/stream_base_commons:221:20)`
  setImmediate(() => reset.emit('error', loss))
  await sleep(100)
  await reset.end()
  process.stdout.write('it lives\n')
  if (process.env.THROWS)
    setTimeout(() => {
      throw new TypeError(process.env.THROWS)
    })
  return { close: async () => void (await Promise.all([other.end(), sql.end({ timeout: 0 })])) }
})
