// The types that the notification routes share.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AddressHash } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import type { Arrival } from '#domain/notifications/store.ts'
import type { WakeUps } from '#queue/wakeup.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The fields of the notification for the log line; undefined until they are known. */
    facts?: Record<string, unknown>
  }
}

export type WebhooksContext = {
  config: Config
  sql: Sql
  database: DatabaseWatch
  log: Log
  wakeups: WakeUps
  hashOf: AddressHash
}

export type ReceivedNotification = Omit<Arrival, 'will_wake' | 'request_id'>

/**
 * Stores a verified notification, with a job if the notification may change a resource. Returns false if the
 * notification was stored before. `request`: the request that delivered it.
 */
export type StoreNotification = (
  notification: ReceivedNotification,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<boolean>

/** The route for the notifications of a provider. */
export type NotificationRoute = {
  path: string
  route: (app: FastifyInstance, context: WebhooksContext, storeNotification: StoreNotification) => void
}
