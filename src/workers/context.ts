// The resources that handlers and recurring work share, created once by `main.ts`.
import type { AddressHash } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { ProviderCredentials, Providers } from '#providers/configured.ts'
import type { Receivers } from '#providers/receivers.ts'
import type { JobLog } from './job-log.ts'
import type { ProviderWatch } from './provider-watch.ts'

export type WorkerContext = Providers & {
  sql: Sql
  log: Log
  vault: Vault
  config: Config
  credentials: ProviderCredentials
  /** Only where messages are sent, or heard of. */
  hashOf: AddressHash
  job_log: JobLog
  provider_watch: ProviderWatch
  /** Posts events to the addresses of tenants. */
  receivers: Receivers
}
