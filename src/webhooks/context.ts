// The types that the notification routes share.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AddressHash } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Arrival } from '#domain/notifications/store.ts'
import type { WakeUps } from '#queue/wakeup.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What its log line says of the notification that it brought, once that is known. */
    facts?: Record<string, unknown>
  }
}

export type WebhooksContext = {
  config: Config
  sql: Sql
  log: Log
  wakeups: WakeUps
  hashOf: AddressHash
}

/**
 * Stores a notification, with a job if it may be news; false when it was stored before. `request` is the one
 * that brought it.
 */
export type StoreNotification = (
  notification: Omit<Arrival, 'will_wake' | 'request_id'>,
  request: FastifyRequest,
) => Promise<boolean>

/** The route that receives the notifications of a provider. */
export type NotificationRoute = {
  path: string
  route: (app: FastifyInstance, context: WebhooksContext, storeNotification: StoreNotification) => void
}
