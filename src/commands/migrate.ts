// `npm run migrate`: brings the database, and the queue's own tables in it, up to date.
import { loadConfig, need, queueConfig } from '#core/config.ts'
import { migrate } from '#core/migrate.ts'
import { run } from '#core/service.ts'
import { migrateQueue } from '#queue/main.ts'

await run(
  'sluice migrate: applies what is new in migrations/, forward only. Needs DATABASE_URL.',
  async () => {
    const config = loadConfig()
    const applied = await migrate(need(config, 'DATABASE_URL'), (text) => process.stdout.write(`${text}\n`))
    const queue = queueConfig(config)
    if (queue.redis_url === null) await migrateQueue(queue)
    process.stdout.write(
      applied.length === 0 ? 'The database is up to date.\n' : `Applied ${applied.join(', ')}.\n`,
    )
    return { close: () => Promise.resolve() }
  },
)
