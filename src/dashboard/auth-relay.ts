// Passes requests on to better-auth, and answers as it did.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { endSessionsOf } from '#domain/people/credentials.ts'
import type { DashboardContext, FoundSession } from './context.ts'
import { originOf } from './guard.ts'
import { ADDRESS_HEADER } from './sessions.ts'
import { refusedInWords } from './sign-in-words.ts'

const LONGEST_AGENT = 512

/**
 * A path of better-auth. `body`: the fields that we accept; better-auth accepts more, such as an address to go to
 * afterwards. `ours`: fields that are not passed on. `adds`: fields that we set.
 */
export type Served = { body: z.ZodObject; ours?: string[]; adds?: Record<string, unknown>; method?: string }

export type AuthRelay = {
  /** Returns the answer of better-auth. */
  passOn: (request: FastifyRequest, step?: Omit<Served, 'body'>) => Promise<Response>
  /** Returns the session that an answer sets; undefined if it sets none. */
  sessionOf: (answer: Response) => Promise<FoundSession | undefined>
  /** Ends the sessions of the user, except the one that the answer sets, or else that of the request. */
  endOthers: (request: FastifyRequest, answer: Response, user_id: string) => Promise<void>
}

export function createAuthRelay(context: DashboardContext): AuthRelay {
  const { config, sessions, findSession, findGivenSession, sql } = context
  const sessionOf: AuthRelay['sessionOf'] = async (answer) =>
    await findGivenSession(answer.headers.getSetCookie())
  return {
    async passOn(request, { ours = [], adds, method = request.method } = {}) {
      const headers = headersOf(request)
      headers.set(ADDRESS_HEADER, request.ip)
      // It is stored with the session.
      headers.set('user-agent', (headers.get('user-agent') ?? '').slice(0, LONGEST_AGENT))
      headers.set('content-type', 'application/json')
      // The schema has removed all other fields.
      const given = Object.entries(Object(request.body))
      const body = { ...Object.fromEntries(given.filter(([name]) => !ours.includes(name))), ...adds }
      return await sessions.handle(
        new Request(`${originOf(config, request)}${request.url}`, {
          method,
          headers,
          ...(method === 'POST' && { body: JSON.stringify(body) }),
        }),
      )
    },
    sessionOf,
    async endOthers(request, answer, user_id) {
      const kept = (await sessionOf(answer)) ?? (await findSession(request))
      await endSessionsOf(sql, user_id, { but: kept?.signed_in.session_id ?? null })
    },
  }
}

export function headersOf(request: FastifyRequest): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (typeof value === 'string' && name !== 'content-length') headers.set(name, value)
  return headers
}

/** Sends the answer of better-auth, with errors in our form and words. */
export async function sendAnswer(
  reply: FastifyReply,
  answer: Response,
  message?: string,
): Promise<FastifyReply> {
  for (const cookie of answer.headers.getSetCookie()) reply.header('set-cookie', cookie)
  const text = await answer.text()
  if (answer.ok) return reply.code(answer.status).type('application/json; charset=utf-8').send(text)
  const { message: words, starts_again } = refusedInWords(text)
  const said = { message: message ?? words, ...(starts_again && { context: { starts_again } }) }
  if (answer.status === 401) throw new AppError('unauthorized', said)
  if (answer.status === 403) throw new AppError('forbidden', said)
  if (answer.status === 404) throw new AppError('not_found', said)
  if (answer.status === 429) throw new AppError('rate_limited', { ...said, retry_after_s: 60 })
  if (answer.status < 500) throw new AppError('invalid_request', said)
  throw new Error(`better-auth answered ${answer.status}`)
}
