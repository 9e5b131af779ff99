// What the routes of notifications share.
import type { FastifyRequest } from 'fastify'
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Notification } from '#domain/notifications.ts'
import type { Doorbell } from '#queue/doorbell.ts'

export type WebhooksContext = {
  config: Config
  sql: Sql
  log: Log
  doorbell: Doorbell
  stripe_secrets: string[]
}

/** Stores a notification and asks for its application; false when it was stored before. The request is the one that brought it. */
export type Take = (notification: Notification, request: FastifyRequest) => Promise<boolean>
