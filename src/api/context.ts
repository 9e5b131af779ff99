// What routes share: resources made once by `main.ts`, and what the application makes of them.
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
import type { StoredKey, KeyOnRoute } from '#domain/idempotency.ts'
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
  /** What is stored of an idempotency key on its route, or undefined. */
  remembered: (sent: KeyOnRoute) => Promise<StoredKey | undefined>
  /** The idempotency keys that this process saw last. */
  recent_keys: RecentNames
  /** Of each key and each tenant. */
  limit: CallerLimit
  runList: RunList
  log: Log
  vault: Vault
  hashOf: AddressHash
  queue: Queue
  wakeups: WakeUps
  /** By the id of the job. */
  waiters: Waiters
  /** Who waits for events, by the id of the tenant. */
  feed_waiters: Waiters
}

export type RouteContext = ApiContext & { itemError: Refusals['itemError'] }

/** The application as routes see it: the types of a handler come from the schemas of its route. */
export type RouteApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>
