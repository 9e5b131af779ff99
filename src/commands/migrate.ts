// `npm run migrate`: brings the database, and the queue's own tables in it, up to date.
import { loadConfig, queueConfig } from '#core/config.ts'
import { migrate } from '#core/migrate.ts'
import { run } from '#core/run.ts'
import { helpOf } from '#core/service.ts'
import { migrateQueue } from '#queue/queue.ts'
import { databaseUrl, explained } from './database.ts'
import { print } from './print.ts'

const ABOUT =
  'sluice migrate: applies what is new in migrations/, forward only. Run it as the owner of the tables, before a new version starts.'

await run(helpOf(ABOUT, 'migrate'), async () => {
  const config = loadConfig()
  const DATABASE_URL = databaseUrl(config)
  const applied = await migrate(DATABASE_URL, print).catch((error: unknown) => {
    throw explained(error, config, DATABASE_URL)
  })
  const queue = queueConfig({ ...config, DATABASE_URL })
  if (queue.redis_url === null) await migrateQueue(queue)
  print(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`)
  return { close: () => Promise.resolve() }
})
