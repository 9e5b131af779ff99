// Forwards requests to better-auth, and sends its responses.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { endSessionsOf } from '#domain/people/credentials.ts'
import type { DashboardContext, ActiveSession } from './context.ts'
import { originOf } from './guard.ts'
import { CLIENT_ADDRESS_HEADER } from './sessions.ts'
import { describeRefusal } from './sign-in-texts.ts'

const MAX_USER_AGENT_LENGTH = 512

/**
 * A path of better-auth. `body`: the accepted fields; better-auth itself accepts more, such as a redirect URL.
 * `local_fields`: fields that are not forwarded. `added_fields`: fields that the dashboard sets.
 */
export type AuthEndpoint = {
  body: z.ZodObject
  local_fields?: string[]
  added_fields?: Record<string, unknown>
  method?: string
}

export type AuthRelay = {
  /** Returns the response of better-auth. */
  forward: (request: FastifyRequest, step?: Omit<AuthEndpoint, 'body'>) => Promise<Response>
  /** Returns the session that a response starts; undefined if it starts none. */
  sessionOf: (response: Response) => Promise<ActiveSession | undefined>
  /** Ends all sessions of the user but one: the session that the response starts, or else that of the request. */
  endOtherSessions: (request: FastifyRequest, response: Response, user_id: string) => Promise<void>
}

export function createAuthRelay(context: DashboardContext): AuthRelay {
  const { config, sessions, findSession, findIssuedSession, sql } = context
  const sessionOf: AuthRelay['sessionOf'] = async (response) =>
    await findIssuedSession(response.headers.getSetCookie())
  return {
    async forward(request, { local_fields = [], added_fields, method = request.method } = {}) {
      const headers = headersOf(request)
      headers.set(CLIENT_ADDRESS_HEADER, request.ip)
      // better-auth stores the user agent with the session.
      headers.set('user-agent', (headers.get('user-agent') ?? '').slice(0, MAX_USER_AGENT_LENGTH))
      headers.set('content-type', 'application/json')
      // The schema has removed unknown fields.
      const fields = Object.entries(Object(request.body))
      const body = {
        ...Object.fromEntries(fields.filter(([name]) => !local_fields.includes(name))),
        ...added_fields,
      }
      return await sessions.handle(
        new Request(`${originOf(config, request)}${request.url}`, {
          method,
          headers,
          ...(method === 'POST' && { body: JSON.stringify(body) }),
        }),
      )
    },
    sessionOf,
    async endOtherSessions(request, response, user_id) {
      const current = (await sessionOf(response)) ?? (await findSession(request))
      await endSessionsOf(sql, user_id, { except: current?.signed_in.session_id ?? null })
    },
  }
}

export function headersOf(request: FastifyRequest): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (typeof value === 'string' && name !== 'content-length') headers.set(name, value)
  return headers
}

/** Sends a response of better-auth. Throws its errors as `AppError`; `message` replaces their text. */
export async function sendAuthResponse(
  reply: FastifyReply,
  response: Response,
  message?: string,
): Promise<FastifyReply> {
  for (const cookie of response.headers.getSetCookie()) reply.header('set-cookie', cookie)
  const text = await response.text()
  if (response.ok) return reply.code(response.status).type('application/json; charset=utf-8').send(text)
  const { message: default_message, restart_required } = describeRefusal(text)
  const error = {
    message: message ?? default_message,
    ...(restart_required && { context: { restart_required } }),
  }
  if (response.status === 401) throw new AppError('unauthorized', error)
  if (response.status === 403) throw new AppError('forbidden', error)
  if (response.status === 404) throw new AppError('not_found', error)
  if (response.status === 429) throw new AppError('rate_limited', { ...error, retry_after_s: 60 })
  if (response.status < 500) throw new AppError('invalid_request', error)
  throw new Error(`better-auth responded with status ${response.status}`)
}
