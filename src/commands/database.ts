// Which database a command works on: the one that is named, else that of the `npm start` of this folder.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { need, type Config } from '#core/config.ts'

/** The URL of the database. Errors: ConfigError when none is named and none was started here. */
export function databaseUrl(config: Config): string {
  return config.DATABASE_URL ?? startedHere(config.DATA_DIR) ?? need(config, 'DATABASE_URL')
}

function startedHere(data_dir: string): string | undefined {
  try {
    const started = JSON.parse(readFileSync(join(data_dir, 'dev.json'), 'utf8')) as { database_url?: unknown }
    return typeof started.database_url === 'string' ? started.database_url : undefined
  } catch {
    return undefined
  }
}
