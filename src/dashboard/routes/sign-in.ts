// Sign-in, and what people change of it: the paths of better-auth that we serve, limited and recorded.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import {
  endSession,
  endSessionsOf,
  findCodeSecret,
  findPasskeyNames,
  findPasswordHash,
  removePasskeys,
  takeCodeStep,
} from '#domain/people/credentials.ts'
import { personName } from '#domain/people/users.ts'
import { actorOf, type DashboardContext } from '../context.ts'
import { originOf } from '../guard.ts'
import { AUDIT_HEADER, recordAct } from '../on-record.ts'
import { stepOf } from '../one-time-codes.ts'
import { createPasswordGuard } from '../passwords.ts'
import { ADDRESS_HEADER, AUTH_PATH } from '../sessions.ts'
import { refusedInWords } from '../sign-in-words.ts'

/** What is read. */
const READ = ['list-sessions', 'passkey/list-user-passkeys'] as const

const text = z.string().max(4_096)
const LONGEST_AGENT = 512
/** Missing, it is wrong. */
const withPassword = z.object({ password: text.optional() })
const withCode = z.object({ code: text })
const byPassword = z.object({ email: text, password: text, rememberMe: z.boolean().optional() })
const nothing = z.object({})
const newPassword = z.object({
  currentPassword: text,
  newPassword: text,
  remove_passkeys: z.boolean().optional(),
})

/**
 * `body`: what we take; the library takes more, such as where to go afterwards, which we do not serve. `ours`: of that,
 * what is not passed on.
 */
type Served = { body: z.ZodObject; ours?: string[]; adds?: Record<string, unknown>; method?: string }
/**
 * Steps of signing in: what an entry says that it was done by. `takes_code`: each code once. `anew`: also somebody who is
 * signed in signs in by it.
 */
const SIGN_IN: Record<string, Served & { by: string; takes_code?: boolean; anew?: boolean }> = {
  'two-factor/verify-totp': { body: withCode, by: 'one-time code', takes_code: true },
  'two-factor/verify-backup-code': { body: withCode, by: 'backup code' },
  'passkey/verify-authentication': {
    body: z.object({ response: z.looseObject({}) }),
    by: 'passkey',
    anew: true,
  },
}
/**
 * What somebody who is signed in changes, and what that is called in the audit log; null: nothing changes yet. `proven`:
 * it takes the password again, which the step itself looks at, or else we. `ends`: all other sessions end, because what
 * lets somebody in is another. `tells_passkeys`: the answer has those that are left.
 */
type Changing = Served & {
  action: string | null
  proven?: 'by step' | 'by us'
  ends?: boolean
  tells_passkeys?: boolean
}
const CHANGED: Record<string, Changing> = {
  'sign-out': { body: nothing, action: 'sign_out' },
  'update-user': {
    body: z.object({ name: personName }),
    action: 'profile.rename',
  },
  'change-password': {
    body: newPassword,
    ours: ['remove_passkeys'],
    // Whoever else knows the old one may have a session by it.
    adds: { revokeOtherSessions: true },
    action: 'profile.change_password',
    proven: 'by step',
    ends: true,
    tells_passkeys: true,
  },
  'revoke-session': { body: z.object({ token: text }), action: 'profile.end_session' },
  'revoke-other-sessions': { body: nothing, action: 'profile.end_other_sessions' },
  'two-factor/enable': { body: withPassword, action: null, proven: 'by step' },
  'two-factor/disable': {
    body: withPassword,
    action: 'two_factor.disable',
    proven: 'by step',
    ends: true,
  },
  'two-factor/generate-backup-codes': {
    body: withPassword,
    action: 'two_factor.new_backup_codes',
    proven: 'by step',
  },
  // With a passkey a stolen session would become one for good. Here too, so that none is made in vain.
  'passkey/generate-register-options': {
    body: withPassword,
    method: 'GET',
    action: null,
    proven: 'by us',
  },
  'passkey/verify-registration': {
    body: withPassword.extend({ response: z.looseObject({}), name: text.optional() }),
    ours: ['password'],
    action: 'passkeys.add',
    proven: 'by us',
  },
  'passkey/delete-passkey': {
    body: withPassword.extend({ id: text }),
    ours: ['password'],
    action: 'passkeys.remove',
    proven: 'by us',
  },
  'passkey/update-passkey': { body: z.object({ id: text, name: text }), action: 'passkeys.rename' },
}
/** Each makes a row that is kept for five minutes. Of an address. */
const CHALLENGES = { rps: 0.2, burst: 20 }

export function signInRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { config, sessions, findSession, findGivenSession, signedIn, sql } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const challenges = createLimit(CHALLENGES)
  // Whoever is signed in holds up nobody who signs in.
  const [toSignIn, toChange] = [createPasswordGuard(context), createPasswordGuard(context)]

  async function passOn(
    request: FastifyRequest,
    { ours = [], adds, method = request.method }: Omit<Served, 'body'>,
  ): Promise<Response> {
    const headers = headersOf(request)
    headers.set(ADDRESS_HEADER, request.ip)
    // It is kept with the session.
    headers.set('user-agent', (headers.get('user-agent') ?? '').slice(0, LONGEST_AGENT))
    headers.set('content-type', 'application/json')
    // As its schema has left it.
    const given = Object.entries(Object(request.body))
    const body = { ...Object.fromEntries(given.filter(([name]) => !ours.includes(name))), ...adds }
    return await sessions.handle(
      new Request(`${originOf(config, request)}${request.url}`, {
        method,
        headers,
        ...(method === 'POST' && { body: JSON.stringify(body) }),
      }),
    )
  }
  /** Whether the password in the body is that of who is signed in, as an answer. */
  async function provenBy(body: unknown, user_id: string): Promise<Response> {
    const { password } = withPassword.parse(body)
    const hash = await findPasswordHash(sql, user_id)
    const right =
      password !== undefined && hash !== undefined && (await sessions.verifyPassword(hash, password))
    return right ? Response.json({}) : Response.json({ code: 'INVALID_PASSWORD' }, { status: 400 })
  }
  /** The session that an answer gives; undefined when it gives none. */
  async function sessionOf(answer: Response) {
    return await findGivenSession(answer.headers.getSetCookie())
  }
  async function endOthers(request: FastifyRequest, answer: Response, user_id: string): Promise<void> {
    const kept = (await sessionOf(answer)) ?? (await findSession(request))
    await endSessionsOf(sql, user_id, { but: kept?.signed_in.session_id ?? null })
  }
  /** Removes passkeys where that was asked for, and tells which are left: whoever knew the password may have added one. */
  async function withPasskeys(asked: unknown, answer: Response, user_id: string): Promise<Response> {
    if (newPassword.parse(asked).remove_passkeys === true) await removePasskeys(sql, user_id)
    const body = { ...Object(await answer.json()), passkeys: await findPasskeyNames(sql, user_id) }
    return Response.json(body, { headers: answer.headers })
  }
  /** Whether a code that was right is taken for the first time. */
  async function takeCode(body: unknown, user_id: string): Promise<boolean> {
    const { code } = withCode.parse(body)
    const sealed = await findCodeSecret(sql, user_id)
    if (sealed === undefined) return false
    const step = stepOf(await sessions.open(sealed), code, Date.now())
    return step !== undefined && (await takeCodeStep(sql, user_id, step))
  }
  /** Puts on record that somebody signed in, by the cookie of the answer; an answer without one is a step before that. */
  async function recordSignIn(request: FastifyRequest, answer: Response, by: string): Promise<void> {
    const found = await sessionOf(answer)
    if (found === undefined) return
    request.signed_in = found.signed_in
    const tenant_id = found.signed_in.tenant?.id ?? null
    await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'sign_in', details: { by } })
  }

  app.post(`${AUTH_PATH}/sign-in/email`, { schema: { body: byPassword } }, async (request, reply) => {
    const answer = await toSignIn(request, reply, request.body.email, () => passOn(request, {}))
    if (!answer.ok) return await send(reply, answer, 'The email address or the password is wrong.')
    await recordSignIn(request, answer, 'password')
    return await send(reply, answer)
  })

  for (const [path, { body, by, takes_code = false, anew = false, ...step }] of Object.entries(SIGN_IN))
    app.post(`${AUTH_PATH}/${path}`, { schema: { body } }, async (request, reply) => {
      const before = (await findSession(request))?.signed_in
      const answer = await passOn(request, step)
      if (!answer.ok) return await send(reply, answer)
      if (takes_code) {
        const found = before ?? (await sessionOf(answer))?.signed_in
        if (found === undefined || !(await takeCode(request.body, found.user_id))) {
          if (before !== undefined)
            throw new AppError('unauthorized', {
              message: 'This code was used before. Wait for the next one.',
            })
          if (found !== undefined) await endSession(sql, found.session_id)
          // The library has taken it for a sign-in that is over: there is nothing left that the next code could end.
          throw new AppError('unauthorized', {
            message: 'This code was used before. Sign in again with the next one.',
            context: { starts_again: true },
          })
        }
      }
      if (before === undefined || anew) await recordSignIn(request, answer, by)
      else if (takes_code && !before.two_factor_enabled) {
        // The first code confirms that they are set up.
        request.signed_in = before
        const actor = actorOf(request, before.tenant?.id ?? null)
        reply.header(AUDIT_HEADER, await appendAuditEntry(sql, actor, { action: 'two_factor.enable' }))
        await endOthers(request, answer, before.user_id)
      }
      return await send(reply, answer)
    })
  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) => {
    challenges(networkOf(request.ip), reply)
    return await send(reply, await passOn(request, {}))
  })

  for (const path of READ)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await signedIn(request)
      return await send(reply, await passOn(request, {}))
    })
  for (const [
    path,
    { body, action, proven, ends = false, tells_passkeys = false, ...step },
  ] of Object.entries(CHANGED))
    app.post(
      `${AUTH_PATH}/${path}`,
      { schema: { body: body === nothing ? body.nullish() : body } },
      async (request, reply) => {
        const { user_id, email, tenant } = await signedIn(request)
        if (action !== null) await recordAct(context, request, reply, tenant?.id ?? null, { action })
        const look = () => (proven === 'by us' ? provenBy(request.body, user_id) : passOn(request, step))
        let answer = proven === undefined ? await look() : await toChange(request, reply, email, look)
        if (proven === 'by us' && answer.ok) answer = await passOn(request, step)
        if (ends && answer.ok) await endOthers(request, answer, user_id)
        if (tells_passkeys && answer.ok) answer = await withPasskeys(request.body, answer, user_id)
        return await send(reply, answer)
      },
    )
}

export function headersOf(request: FastifyRequest): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (typeof value === 'string' && name !== 'content-length') headers.set(name, value)
  return headers
}

/** Answers as better-auth did, its errors in our form and words. */
async function send(reply: FastifyReply, answer: Response, message?: string): Promise<FastifyReply> {
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
