// What all routes share. `open.ts` creates it once per process.
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { AddressHash } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { AreaStates } from '#domain/areas.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import type { StoredKey, KeyOnRoute } from '#domain/idempotency.ts'
import type { AcceptedRequest } from '#queue/accepted.ts'
import type { Queue } from '#queue/queue.ts'
import type { WakeUps } from '#queue/wakeup.ts'
import type { CallerLimit } from './limit.ts'
import type { RunList } from './lists.ts'
import type { RecentNames } from './recent.ts'
import type { Refusals } from './refusals.ts'
import type { Waiters } from './wait.ts'

export type ApiContext = {
  config: Config
  areas: AreaStates
  sql: Sql
  database: DatabaseWatch
  /** The stored request of an idempotency key on its route; undefined if there is none. */
  findStoredKey: (sent: KeyOnRoute) => Promise<StoredKey | undefined>
  /** With a synchronous standby, resolves when all that was read before is at the standby. */
  confirmReplicated: () => Promise<void>
  /** The idempotency keys that this process used recently. */
  recent_keys: RecentNames
  /** The rate limit of each key and of each tenant. */
  limit: CallerLimit
  runList: RunList
  log: Log
  /** Logs that the database has lost this accepted request. */
  logLostCommit: (request: { tenant_id: string; route: string; request_id: string }) => void
  vault: Vault
  hashOf: AddressHash
  queue: Queue
  /** Records an accepted request outside of the database. */
  record: (
    request: { tenant_id: string; route: string; key: string | null },
    written: Pick<AcceptedRequest, 'resource_id' | 'is_created' | 'job_id'>,
  ) => void
  wakeups: WakeUps
  /** Waits for jobs, by job id. */
  waiters: Waiters
  /** Waits for events, by tenant id. */
  feed_waiters: Waiters
}

export type RouteContext = ApiContext & { itemError: Refusals['itemError'] }

/** The application with typed handlers: their types come from the schemas of the route. */
export type RouteApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>
