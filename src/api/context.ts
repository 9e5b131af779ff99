// What routes share: resources made once by `main.ts`.
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { Queue } from '#queue/main.ts'
import type { Doorbell } from '#queue/doorbell.ts'
import type { Waiters } from './wait.ts'

export type ApiContext = {
  config: Config
  sql: Sql
  log: Log
  vault: Vault
  queue: Queue
  doorbell: Doorbell
  waiters: Waiters
}
