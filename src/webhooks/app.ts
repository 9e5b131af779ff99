// The webhooks host. It verifies each notification and stores it once, with a job if the notification may change a
// resource. Then it wakes a worker and answers 200.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createBatcher } from '#core/batch.ts'
import { createBodyReader } from '#core/bodies.ts'
import { isStatementTimeout, isUnavailable } from '#core/db.ts'
import { countLimited } from '#core/metrics/requests.ts'
import { AppError } from '#core/errors.ts'
import { SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import { createListener } from '#core/listener.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import {
  storedFields,
  storeNotifications,
  type Arrival,
  type StoredOutcome,
} from '#domain/notifications/store.ts'
import { findTraceOfResource } from '#domain/jobs/traces.ts'
import { applyNotification } from '#jobs/notifications.ts'
import { AnswerTimeoutError, withTimeout } from '#core/timeout.ts'
import { startRequestSpan } from '#core/trace-requests.ts'
import { withSpan } from '#core/tracing.ts'
import type { ReceivedNotification, StoreNotification, WebhooksContext } from './context.ts'
import { rawBody } from './refuse.ts'
import { NOTIFICATION_ROUTES } from './routes.ts'

const BODY_LIMIT_BYTES = 1024 * 1024
/**
 * How long notifications are gathered for one statement. The delay does no harm, because no person waits for the
 * answers, and it saves statements, because the notifications of one payment arrive close together.
 */
const GATHER_MS = 15
/** The maximum total size of the bodies whose notifications wait to be stored. */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024
/**
 * The time limit for storing a notification, because a stalled database connection raises no error. Providers wait
 * longer than this for an answer.
 */
const STORE_TIMEOUT_MS = 5_000

/** Builds the host. The caller starts and closes it. */
export async function buildWebhooks(context: WebhooksContext): Promise<FastifyInstance> {
  const { config, log } = context
  const app = createListener('webhooks', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    trusted_proxies: config.TRUSTED_PROXIES,
    log_sample_rate: config.log_sample_rate,
    about: ({ facts }) => facts ?? {},
    bodyLimit: BODY_LIMIT_BYTES,
    errorBody: (code, message) => ({ error: { code, message } }),
    // Called if the path of the request cannot be decoded.
    frameworkErrors: (_error, request, reply) => void noSuchRoute(reply.header('x-request-id', request.id)),
  })
  const readBody = createBodyReader()
  // The body stays raw, because the signature covers the raw bytes.
  app.addContentTypeParser('*', async (request: FastifyRequest) =>
    request.is404 ? null : await readBody(request),
  )

  app.decorateRequest('facts')

  app.setNotFoundHandler((_request, reply) => noSuchRoute(reply))
  app.setErrorHandler((error: HttpError, request, reply) => refuse(error, request, reply, log))
  const storeNotification = createStoreNotification(context)
  for (const { route } of NOTIFICATION_ROUTES) route(app, context, storeNotification)
  await app.ready()
  return app
}

/** Stores each notification once. One statement stores all waiting notifications. */
function createStoreNotification({ sql, database, wakeups }: WebhooksContext): StoreNotification {
  const store = createBatcher<Arrival, StoredOutcome | undefined>(
    'store_notification',
    async (notifications) => {
      const stored = new Map(
        (await storeNotifications(sql, notifications)).map((outcome) => [outcome.id, outcome]),
      )
      return notifications.map(({ id }) => {
        const outcome = stored.get(id)
        // Of several notifications with the same id in one batch, only the first is new.
        stored.delete(id)
        return outcome
      })
    },
    { gather_ms: GATHER_MS },
  )
  async function storeOne(notification: ReceivedNotification, request: FastifyRequest) {
    const { id, event_id, provider, livemode } = notification
    const ids = { notification_id: id, event_id }
    request.facts = ids
    const tenant_id = livemode ? SYSTEM_TENANT_ID : SYSTEM_TWIN_ID
    const will_wake = wakeups.admits(applyNotification.queue, tenant_id)
    // A notification may still be stored after the timeout. Then the provider's retry is a duplicate.
    const stored = await withTimeout(
      database.whileCurrent(() => store({ ...notification, will_wake, request_id: request.id })),
      STORE_TIMEOUT_MS,
    )
    const state = stored?.state ?? 'duplicate'
    request.facts = { ...ids, ...(stored ? storedFields(stored) : { state }) }
    // Notifications of test mode must not hide that those of live mode stay away.
    if (livemode) metrics.notificationsStored.inc({ provider, state })
    if (state === 'received' && will_wake) wakeups.wake({ id, queue: applyNotification.queue, tenant_id })
    return stored
  }

  /** Stores a notification within a span. The providers' own traces are not read. */
  async function storeTraced(
    notification: ReceivedNotification,
    request: FastifyRequest,
    reply: FastifyReply,
  ) {
    let stored: StoredOutcome | undefined
    const findLink = async () => {
      const { tenant_id, resource_id } = stored ?? {}
      return tenant_id && resource_id ? await findTraceOfResource(sql, { tenant_id, resource_id }) : null
    }
    const span = startRequestSpan(request, reply, { findLink })
    stored = await withSpan(span, () => storeOne(notification, request))
    if (stored?.tenant_id) span?.set({ 'sluice.tenant_id': stored.tenant_id })
    return stored !== undefined
  }

  let buffered_bytes = 0
  return async (notification, request, reply) => {
    const { length } = rawBody(request)
    if (buffered_bytes + length > MAX_BUFFERED_BYTES)
      throw new AppError('overloaded', {
        limited_by: 'notifications',
        message: 'Too many large notifications wait to be stored.',
      })
    buffered_bytes += length
    try {
      return await storeTraced(notification, request, reply)
    } finally {
      buffered_bytes -= length
    }
  }
}

type HttpError = Error & { statusCode?: number; code?: string }

function refuse(error: HttpError, request: FastifyRequest, reply: FastifyReply, log: Log): FastifyReply {
  const is_timeout = error instanceof AnswerTimeoutError || isStatementTimeout(error)
  if (isUnavailable(error) || is_timeout) {
    // After a 503, the provider sends the notification again.
    return reply
      .code(503)
      .header('retry-after', 1)
      .send({ error: { code: is_timeout ? 'timeout' : 'database_unavailable', message: 'Try again.' } })
  }
  if (error instanceof AppError) {
    countLimited(error)
    const { status, code, message } = error
    if (status === 503) reply.header('retry-after', 1)
    return reply.code(status).send({ error: { code, message } })
  }
  const status = error.statusCode !== undefined && error.statusCode < 500 ? error.statusCode : 500
  if (status === 500)
    log.error(
      { err: error, request_id: request.id, route: request.routeOptions.url },
      'a notification could not be stored',
    )
  const code = status === 500 ? 'internal_error' : 'invalid_request'
  return reply.code(status).send({
    error: {
      code,
      message: status === 500 ? 'An internal error occurred. Send the notification again.' : error.message,
    },
  })
}

function noSuchRoute(reply: FastifyReply): FastifyReply {
  return reply.code(404).send({ error: { code: 'route_not_found', message: 'There is no such route.' } })
}
