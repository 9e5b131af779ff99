// What handlers and recurring work share: resources made once by `main.ts`.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { Providers } from '#providers/configured.ts'
import type { Story } from './story.ts'

export type WorkerContext = Providers & {
  sql: Sql
  log: Log
  vault: Vault
  story: Story
}
