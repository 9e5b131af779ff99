// `npm run migrate`: migrates the database and the tables of the queue in it.
import { loadConfig, usesRedis } from '#core/config.ts'
import { migrate } from '#core/migrate.ts'
import { run } from '#core/run.ts'
import { helpOf } from '#core/service.ts'
import { migrateQueue } from '#queue/queue.ts'
import { databaseUrl, explainDatabaseError } from './database.ts'
import { print } from './print.ts'

const ABOUT =
  'sluice migrate: applies the new files of migrations/, forward only. Run it as the owner of the tables before you start a new version.'

await run(helpOf(ABOUT, 'migrate'), async () => {
  const config = loadConfig()
  const DATABASE_URL = databaseUrl(config)
  const applied = await migrate(DATABASE_URL, print).catch((error: unknown) => {
    throw explainDatabaseError(error, config, DATABASE_URL)
  })
  // Redis needs no migration, and this command may not know its address.
  if (!usesRedis(config)) await migrateQueue({ redis_url: null, database_url: DATABASE_URL })
  print(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`)
  return { close: () => Promise.resolve() }
})
