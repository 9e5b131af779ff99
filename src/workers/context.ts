// The dependencies that handlers and recurring work share. `main.ts` creates them once.
import type { AddressHash } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { ModeCache } from '#domain/modes.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import type { ProviderCredentials, Providers } from '#providers/configured.ts'
import type { Receivers } from '#providers/receivers.ts'
import type { Idleness } from './idleness.ts'
import type { JobLog } from './job-log.ts'
import type { ProviderWatch } from './provider-watch.ts'
import type { Sandboxes } from './sandbox/open.ts'

type Modes = ModeCache & {
  /**
   * The context of a mode. The providers of test mode are opened when they are first needed; a role without a test
   * account has none.
   */
  contextOf(livemode: boolean): WorkerContext
  /** The context of a tenant in test mode: its sandbox takes the place of each provider without a test account. */
  testContextOf(tenant_id: string): Promise<WorkerContext>
  /** The sandboxes. They are loaded when they are first needed. */
  sandboxes(): Promise<Sandboxes>
}

export type WorkerContext = Providers & {
  sql: Sql
  database: DatabaseWatch
  log: Log
  vault: Vault
  config: Config
  /** False for the context of tenants in test mode. */
  livemode: boolean
  /** The tenant whose sandbox this context calls; null: it calls none. */
  sandbox_of: string | null
  modes: Modes
  /** The names of the providers that this context can call. */
  configured: ReadonlySet<string>
  credentials: ProviderCredentials
  /** Hashes addresses. Needs ADDRESS_KEY: only for queues that send messages or apply provider events of messages. */
  hashOf: AddressHash
  job_log: JobLog
  idleness: Idleness
  provider_watch: ProviderWatch
  /** Posts events to the webhook endpoints of tenants. */
  receivers: Receivers
}
