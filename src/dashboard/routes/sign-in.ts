// Sign-in, and what people change of it: the paths of better-auth that we serve, limited and recorded.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '#api/failures.ts'
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
import { actorOf, type DashboardContext } from '../context.ts'
import { originOf } from '../guard.ts'
import { stepOf } from '../one-time-codes.ts'
import { createPasswordGuard } from '../passwords.ts'
import { ADDRESS_HEADER, AUTH_PATH } from '../sessions.ts'
import { AUDIT_HEADER } from '../v1.ts'

/** What is read. */
const READ = ['list-sessions', 'passkey/list-user-passkeys'] as const

/** `takes`: the fields that are passed on; there are more, such as where to go afterwards, which we do not serve. */
type Served = { takes: string[]; adds?: Record<string, unknown>; method?: string }
/** Steps of signing in: what an entry says that it was done by. */
const SIGN_IN: Record<string, Served & { by: string }> = {
  'two-factor/verify-totp': { takes: ['code'], by: 'one-time code' },
  'two-factor/verify-backup-code': { takes: ['code'], by: 'backup code' },
  'passkey/verify-authentication': { takes: ['response'], by: 'passkey' },
}
/**
 * What somebody who is signed in changes, and what that is called in the audit log; null: nothing changes yet. `proven`:
 * it takes the password again, which the step itself looks at, or else we. `ends`: all other sessions end, because what
 * lets somebody in is another.
 */
type Changing = Served & { action: string | null; proven?: 'by step' | 'by us'; ends?: boolean }
const CHANGED: Record<string, Changing> = {
  'sign-out': { takes: [], action: 'sign_out' },
  'update-user': { takes: ['name'], action: 'profile.rename' },
  'change-password': {
    takes: ['currentPassword', 'newPassword'],
    // Whoever else knows the old one may have a session by it.
    adds: { revokeOtherSessions: true },
    action: 'profile.change_password',
    proven: 'by step',
    ends: true,
  },
  'revoke-session': { takes: ['token'], action: 'profile.end_session' },
  'revoke-other-sessions': { takes: [], action: 'profile.end_other_sessions' },
  'two-factor/enable': { takes: ['password'], action: null, proven: 'by step' },
  'two-factor/disable': {
    takes: ['password'],
    action: 'two_factor.disable',
    proven: 'by step',
    ends: true,
  },
  'two-factor/generate-backup-codes': {
    takes: ['password'],
    action: 'two_factor.new_backup_codes',
    proven: 'by step',
  },
  // With a passkey a stolen session would become one for good. Here too, so that none is made in vain.
  'passkey/generate-register-options': { takes: [], method: 'GET', action: null, proven: 'by us' },
  'passkey/verify-registration': { takes: ['response', 'name'], action: 'passkeys.add', proven: 'by us' },
  'passkey/delete-passkey': { takes: ['id'], action: 'passkeys.remove', proven: 'by us' },
  'passkey/update-passkey': { takes: ['id', 'name'], action: 'passkeys.rename' },
}
const BY_PASSWORD: Served = { takes: ['email', 'password', 'rememberMe'] }
const NOTHING: Served = { takes: [] }
/** Each makes a row that is kept for five minutes. Of an address. */
const CHALLENGES = { rps: 0.2, burst: 20 }

export function signInRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { config, sessions, findSession, signedIn, sql } = context
  const challenges = createLimit(CHALLENGES)
  // Whoever is signed in holds up nobody who signs in.
  const [toSignIn, toChange] = [createPasswordGuard(context), createPasswordGuard(context)]

  async function passOn(
    request: FastifyRequest,
    { takes, adds, method = request.method }: Served,
  ): Promise<Response> {
    const headers = headersOf(request)
    headers.set(ADDRESS_HEADER, request.ip)
    headers.set('content-type', 'application/json')
    const given = Object.entries(Object(request.body) as Record<string, unknown>)
    const body = { ...Object.fromEntries(given.filter(([name]) => takes.includes(name))), ...adds }
    return await sessions.handle(
      new Request(`${originOf(config, request)}${request.url}`, {
        method,
        headers,
        ...(method === 'POST' && { body: JSON.stringify(body) }),
      }),
    )
  }
  /** Whether the password in the body is that of who is signed in, as an answer. */
  async function provenBy(request: FastifyRequest, user_id: string): Promise<Response> {
    const { password } = Object(request.body) as { password?: unknown }
    const hash = await findPasswordHash(sql, user_id)
    const right =
      typeof password === 'string' && hash !== undefined && (await sessions.verifyPassword(hash, password))
    return right ? Response.json({}) : Response.json({ message: 'Invalid password' }, { status: 400 })
  }
  /** The session that an answer gives; undefined when it gives none. */
  async function sessionOf(answer: Response) {
    const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(';')[0]!)
    return await findSession(new Headers({ cookie: cookies.join('; ') }))
  }
  async function endOthers(request: FastifyRequest, answer: Response, user_id: string): Promise<void> {
    const kept = (await sessionOf(answer)) ?? (await findSession(headersOf(request)))
    await endSessionsOf(sql, user_id, { but: kept?.signed_in.session_id ?? null })
  }
  /** Removes passkeys where that was asked for, and tells which are left: whoever knew the password may have added one. */
  async function withPasskeys(request: FastifyRequest, answer: Response, user_id: string): Promise<Response> {
    const { remove_passkeys } = Object(request.body) as { remove_passkeys?: unknown }
    if (remove_passkeys === true) await removePasskeys(sql, user_id)
    const body = { ...Object(await answer.json()), passkeys: await findPasskeyNames(sql, user_id) }
    return Response.json(body, { headers: answer.headers })
  }
  /** Whether a code that was right is taken for the first time. */
  async function takeCode(request: FastifyRequest, user_id: string): Promise<boolean> {
    const { code } = Object(request.body) as { code?: unknown }
    const sealed = await findCodeSecret(sql, user_id)
    if (sealed === undefined) return false
    const step = stepOf(await sessions.open(sealed), String(code), Date.now())
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

  app.post(`${AUTH_PATH}/sign-in/email`, async (request, reply) => {
    const { email } = Object(request.body) as { email?: unknown }
    const answer = await toSignIn(request, reply, typeof email === 'string' ? email : '', () =>
      passOn(request, BY_PASSWORD),
    )
    if (!answer.ok) return await send(reply, answer, 'The email address or the password is wrong.')
    await recordSignIn(request, answer, 'password')
    return await send(reply, answer)
  })

  for (const [path, step] of Object.entries(SIGN_IN))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      const before = (await findSession(headersOf(request)))?.signed_in
      const answer = await passOn(request, step)
      if (!answer.ok) return await send(reply, answer)
      if (path === 'two-factor/verify-totp') {
        const found = before ?? (await sessionOf(answer))?.signed_in
        if (found === undefined || !(await takeCode(request, found.user_id))) {
          if (before === undefined && found !== undefined) await endSession(sql, found.session_id)
          throw new AppError('unauthorized', {
            message: 'This code was used before. Sign in again with the next one.',
          })
        }
      }
      if (before === undefined || path.startsWith('passkey/')) await recordSignIn(request, answer, step.by)
      else if (path === 'two-factor/verify-totp' && !before.two_factor_enabled) {
        // The first code confirms that they are set up.
        request.signed_in = before
        const by = actorOf(request, before.tenant?.id ?? null)
        reply.header(AUDIT_HEADER, await appendAuditEntry(sql, by, { action: 'two_factor.enable' }))
        await endOthers(request, answer, before.user_id)
      }
      return await send(reply, answer)
    })
  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) => {
    challenges(networkOf(request.ip), reply)
    return await send(reply, await passOn(request, NOTHING))
  })

  for (const path of READ)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await signedIn(request)
      return await send(reply, await passOn(request, NOTHING))
    })
  for (const [path, { action, proven, ends = false, ...step }] of Object.entries(CHANGED))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      request.signed_in = await signedIn(request)
      const by = actorOf(request, request.signed_in.tenant?.id ?? null)
      if (path === 'update-user') assertName(request.body)
      const answers = action === null ? undefined : await appendAuditEntry(sql, by, { action })
      if (answers !== undefined) reply.header(AUDIT_HEADER, answers)
      const { user_id, email } = request.signed_in
      const look = () => (proven === 'by us' ? provenBy(request, user_id) : passOn(request, step))
      let answer = proven === undefined ? await look() : await toChange(request, reply, email, look)
      if (proven === 'by us' && answer.ok) answer = await passOn(request, step)
      if (ends && answer.ok) await endOthers(request, answer, user_id)
      if (path === 'change-password' && answer.ok) answer = await withPasskeys(request, answer, user_id)
      if (action !== null && answers !== undefined)
        await appendAuditEntry(sql, by, { action, answers, details: { status: answer.status } })
      return await send(reply, answer)
    })
}

function assertName(body: unknown): void {
  const { name } = Object(body) as { name?: unknown }
  if (typeof name !== 'string' || name.trim() === '' || name.length > 255)
    throw new AppError('invalid_request', { param: 'name', message: 'name must be 1 to 255 characters.' })
}

export function headersOf(request: FastifyRequest): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (typeof value === 'string' && name !== 'content-length') headers.set(name, value)
  return headers
}

/** Answers as better-auth did, its errors in our form. */
async function send(reply: FastifyReply, answer: Response, message?: string): Promise<FastifyReply> {
  for (const cookie of answer.headers.getSetCookie()) reply.header('set-cookie', cookie)
  const text = await answer.text()
  if (answer.ok) return reply.code(answer.status).type('application/json; charset=utf-8').send(text)
  const said = message ?? messageOf(text)
  if (answer.status === 401) throw new AppError('unauthorized', { message: said })
  if (answer.status === 403) throw new AppError('forbidden', { message: said })
  if (answer.status === 404) throw new AppError('not_found', { message: said })
  if (answer.status === 429) throw new AppError('rate_limited', { message: said, retry_after_s: 60 })
  if (answer.status < 500) throw new AppError('invalid_request', { message: said })
  throw new Error(`better-auth answered ${answer.status}`)
}

function messageOf(text: string): string | undefined {
  try {
    const { message } = Object(JSON.parse(text)) as { message?: unknown }
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
