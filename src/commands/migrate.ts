// `npm run migrate`: migrates the database and the tables of the queue in it.
import { parseArgs } from 'node:util'
import { loadConfig, queueConfig, usesRedis, type Config } from '#core/config.ts'
import { databaseError } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { planMigrations } from '#core/migrate/plan.ts'
import { runUntilStopped } from '#core/run.ts'
import { helpOf } from '#core/service.ts'
import { migrateQueue } from '#queue/queue.ts'
import { databaseUrl, explainDatabaseError } from './database.ts'
import { print } from './print.ts'

const ABOUT = `sluice migrate: applies the new files of migrations/, forward only. Run it as the owner of the tables before you start a
new version. Processes of the old version work on meanwhile. It needs no Redis. With QUEUE=postgres it also migrates the
tables of the queue.

  npm run migrate -- --plan    prints what will run, with which locks and about how long, and changes nothing
  npm run migrate              applies each file as a step of its own, then roles.sql, the rights

A step waits for a lock 2 s at most and is tried up to 30 times with pauses, in which others work. Each try that fails
prints the session that holds the lock. Steps that were applied stay applied: run it again to continue. Two runs at once
exclude each other.`

await runUntilStopped(async () => {
  const { values } = parseArgs({
    options: { plan: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help === true) print(helpOf(ABOUT, 'migrate'))
  else await run(loadConfig(), values)
  return { close: () => Promise.resolve() }
})

async function run(config: Config, { plan }: { plan: boolean }): Promise<void> {
  const DATABASE_URL = databaseUrl(config)
  const explain = (error: unknown) => {
    throw explainDatabaseError(error, config, DATABASE_URL)
  }
  if (plan) return (await planMigrations(DATABASE_URL).catch(explain)).forEach(print)
  const applied = await migrate(DATABASE_URL, print).catch(explain)
  // Only on request: Redis needs no migration, and this command may not know its address.
  if (config.QUEUE === 'postgres') {
    const queue = queueConfig({ ...config, DATABASE_URL })
    const variable = config.QUEUE_DATABASE_URL === undefined ? 'DATABASE_URL' : 'QUEUE_DATABASE_URL'
    await migrateQueue(queue, print).catch((error: unknown) => {
      throw databaseError(error, queue.database_url, variable)
    })
  } else if (!usesRedis(config))
    print(
      'QUEUE is not set: the tables of a queue in PostgreSQL are not created. QUEUE=postgres creates them.',
    )
  print(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`)
}
