// Maps all errors of the API to error codes and answers.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { databaseCode, isStatementTimeout, isUnavailable, unavailability } from '#core/db.ts'
import { AppError, ERRORS, type ErrorCode } from '#core/errors.ts'
import { countLimited } from '#core/metrics/requests.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { ResourceWithJob } from '#domain/jobs/find-with-jobs.ts'
import type { z } from 'zod'
import { docPath, type errorBody } from './openapi/error.ts'

/** Field names come from callers and can be as long as a body. */
const MAX_PARAM_LENGTH = 200

/** Codes that are logged elsewhere: at the start of the process, or by the worker that sent the message. */
const UNLOGGED_CODES: ReadonlySet<ErrorCode> = new Set([
  'misconfigured_gateway',
  'email_send_failed',
  'sms_send_failed',
])

type ErrorAnswer = { error: z.output<typeof errorBody> }

export type Refusals = {
  /** Answers a request with `error`. */
  refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply
  /** The status and error for one failed item of a batch. */
  itemError: (error: unknown, request: FastifyRequest) => { status: number } & ErrorAnswer
  /** The body of an error that occurred before routing. */
  errorBody: (code: ErrorCode, message: string, request_id: string) => unknown
}

/** `origin`: the origin of links. */
export function createRefusals(origin: () => string, log: Log): Refusals {
  function bodyOf(
    code: ErrorCode,
    { message, param, details, context }: Pick<AppError, 'message'> & Partial<AppError>,
    request_id: string,
  ): ErrorAnswer {
    const doc_url = `${origin()}${docPath(code)}`
    const short_param = param?.slice(0, MAX_PARAM_LENGTH)
    return {
      error: {
        code,
        message,
        param: short_param,
        details:
          details ??
          (code === 'invalid_request' && short_param !== undefined
            ? [{ param: short_param, message }]
            : undefined),
        context,
        request_id,
        doc_url,
      },
    }
  }

  // In an outage every request fails: each error code is logged at most once a second.
  const loggers = new Map<ErrorCode, (error: unknown, fields: Record<string, unknown>) => void>()
  function logFailure(code: ErrorCode, error: unknown, fields: Record<string, unknown>): void {
    const logOnce =
      loggers.get(code) ??
      throttle((suppressed, err: unknown, of: Record<string, unknown>) =>
        log.error({ ...factsOf(err, code), code, ...of, suppressed }, 'a request failed'),
      )
    loggers.set(code, logOnce)
    logOnce(error, fields)
  }

  function refusalOf(error: unknown, { id: request_id, routeOptions }: FastifyRequest): AppError {
    const refusal = asAppError(error)
    const { code, status } = refusal
    countLimited(refusal)
    if (status >= 500 && !UNLOGGED_CODES.has(code))
      logFailure(code, error, { request_id, route: routeOptions?.url })
    return refusal
  }

  return {
    refuse(error, request, reply) {
      const refusal = refusalOf(error, request)
      const { code, retry_after_s, status } = refusal
      if (retry_after_s !== undefined || status === 503) reply.header('retry-after', retry_after_s ?? 1)
      if (status === 401) reply.header('www-authenticate', 'Bearer')
      if (status === 408) reply.header('connection', 'close')
      return reply
        .code(status)
        .header('x-request-id', request.id)
        .type('application/json; charset=utf-8')
        .serializer(JSON.stringify)
        .send(bodyOf(code, refusal, request.id))
    },
    itemError(error, request) {
      const refusal = refusalOf(error, request)
      return { status: refusal.status, ...bodyOf(refusal.code, refusal, request.id) }
    },
    errorBody: (code, message, request_id) => bodyOf(code, { message }, request_id),
  }
}

/** The reason of a failure for its log line. The stack of a lost or refused connection would explain nothing. */
function factsOf(error: unknown, code: ErrorCode): Record<string, unknown> {
  if (code !== 'database_unavailable') return { err: error }
  const cause = error instanceof AppError ? (error.cause ?? error) : error
  return { reason: unavailability(cause), database_code: databaseCode(cause) }
}

/** Returns the resource. Throws an error with `code` if the resource is undefined. */
export function requireResource<T>(resource: T | undefined, code: ErrorCode): T {
  if (resource === undefined) throw new AppError(code)
  return resource
}

function asAppError(error: unknown): AppError {
  if (error instanceof AppError) return error
  const { code, statusCode } = error as Partial<FastifyError>
  if (isStatementTimeout(error)) return new AppError('timeout', { cause: error })
  if (isUnavailable(error)) return new AppError('database_unavailable', { cause: error })
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return new AppError('unsupported_media_type')
  if (code === 'FST_ERR_BAD_URL')
    return new AppError('invalid_request', { message: 'The path is not valid percent-encoded UTF-8.' })
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return new AppError('invalid_request', { message: (error as Error).message })
  return new AppError('internal_error', { cause: error })
}

/**
 * The error for a request whose job failed or was discarded. The error of a failed job has a message for the tenant;
 * the error texts of other jobs are internal and not shown. `status`: the status of the resource, for the context of a
 * 409.
 */
export function refusalOfJob(
  { state, last_error }: NonNullable<ResourceWithJob<unknown>['job']>,
  status: string,
  context: Record<string, unknown>,
  fallback_code: ErrorCode,
): AppError {
  if (state !== 'failed' || last_error === null) return new AppError(fallback_code, { context })
  const {
    message,
    decline_code,
    processor_code,
    provider_code,
    provider_message,
    context: extra_facts,
  } = last_error
  const code = Object.hasOwn(ERRORS, last_error.code) ? (last_error.code as ErrorCode) : fallback_code
  if (code === 'internal_error') return new AppError(code, { context })
  const provider_facts = { decline_code, processor_code, provider_code, provider_message, ...extra_facts }
  const fields = { ...provider_facts, status: ERRORS[code][0] === 409 ? status : null, ...context }
  return new AppError(code, {
    message,
    context: Object.fromEntries(Object.entries(fields).filter(([, v]) => v != null)),
  })
}
