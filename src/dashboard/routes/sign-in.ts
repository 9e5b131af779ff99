// Sign-in, and what people change of it: the paths of better-auth that we serve, limited and recorded.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '#api/failures.ts'
import { createGate } from '#core/gate.ts'
import { AppError } from '#core/errors.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { countSignIn, forgetSignIn } from '#domain/people/sign-in-limit.ts'
import { actorOf, type DashboardContext } from '../context.ts'
import { originOf } from '../guard.ts'
import { ADDRESS_HEADER, AUTH_PATH } from '../sessions.ts'
import { AUDIT_HEADER } from '../v1.ts'

/** What is read. */
const READ = ['list-sessions', 'passkey/list-user-passkeys', 'passkey/generate-register-options'] as const

/** `takes`: the fields that are passed on; there are more, such as where to go afterwards, which we do not serve. */
type Served = { takes: string[]; adds?: Record<string, unknown> }
/** Steps of signing in: what an entry says that it was done by. */
const SIGN_IN: Record<string, Served & { by: string }> = {
  'two-factor/verify-totp': { takes: ['code'], by: 'one-time code' },
  'two-factor/verify-backup-code': { takes: ['code'], by: 'backup code' },
  'passkey/verify-authentication': { takes: ['response'], by: 'passkey' },
}
/**
 * What somebody who is signed in changes, and what that is called in the audit log; null: nothing changes yet. `proven`:
 * it takes the password again.
 */
const CHANGED: Record<string, Served & { action: string | null; proven?: 'password' | 'currentPassword' }> = {
  'sign-out': { takes: [], action: 'sign_out' },
  'update-user': { takes: ['name'], action: 'profile.rename' },
  'change-password': {
    takes: ['currentPassword', 'newPassword'],
    // Whoever else knows the old one may have a session by it.
    adds: { revokeOtherSessions: true },
    action: 'profile.change_password',
    proven: 'currentPassword',
  },
  'revoke-session': { takes: ['token'], action: 'profile.end_session' },
  'revoke-other-sessions': { takes: [], action: 'profile.end_other_sessions' },
  'two-factor/enable': { takes: ['password'], action: null, proven: 'password' },
  'two-factor/disable': { takes: ['password'], action: 'two_factor.disable', proven: 'password' },
  'two-factor/generate-backup-codes': {
    takes: ['password'],
    action: 'two_factor.new_backup_codes',
    proven: 'password',
  },
  'passkey/verify-registration': { takes: ['response', 'name'], action: 'passkeys.add' },
  'passkey/delete-passkey': { takes: ['id'], action: 'passkeys.remove' },
  'passkey/update-passkey': { takes: ['id', 'name'], action: 'passkeys.rename' },
}
const BY_PASSWORD: Served = { takes: ['email', 'password', 'rememberMe'] }
const NOTHING: Served = { takes: [] }
const tooMany = () => new AppError('overloaded')
/** Hashing a password takes 32 MB and a tenth of a second of a processor. */
const HASHING = { running: 4, queue: { waiting: 64, wait_ms: 5_000, refuse: tooMany } }

export function signInRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { config, sessions, findSession, signedIn, sql, hashOf } = context
  const hashing = createGate(HASHING)

  async function passOn(request: FastifyRequest, { takes, adds }: Served): Promise<Response> {
    const headers = headersOf(request)
    headers.set(ADDRESS_HEADER, request.ip)
    headers.set('content-type', 'application/json')
    const given = Object.entries(Object(request.body) as Record<string, unknown>)
    const body = { ...Object.fromEntries(given.filter(([name]) => takes.includes(name))), ...adds }
    return await sessions.handle(
      new Request(`${originOf(config, request)}${request.url}`, {
        method: request.method,
        headers,
        ...(request.method === 'POST' && { body: JSON.stringify(body) }),
      }),
    )
  }
  /** Passes on what carries a password. One that is wrong counts, whoever tries it and where. */
  async function passOnPassword(request: FastifyRequest, step: Served, email: string): Promise<Response> {
    const attempt = {
      account: hashOf('email', email.slice(0, 320).toLowerCase()),
      address: networkOf(request.ip),
    }
    const retry_after_s = await countSignIn(sql, attempt)
    if (retry_after_s !== null)
      throw new AppError('rate_limited', {
        message: 'Too many wrong passwords: wait before you try again.',
        retry_after_s,
      })
    const answer = await hashing(() => passOn(request, step))
    if (answer.ok) await forgetSignIn(sql, attempt)
    return answer
  }
  /** Puts on record that somebody signed in, by the cookie of the answer; an answer without one is a step before that. */
  async function recordSignIn(request: FastifyRequest, answer: Response, by: string): Promise<void> {
    const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(';')[0]!)
    const found = await findSession(new Headers({ cookie: cookies.join('; ') }))
    if (found === undefined) return
    request.signed_in = found.signed_in
    const tenant_id = found.signed_in.tenant?.id ?? null
    await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'sign_in', details: { by } })
  }

  app.post(`${AUTH_PATH}/sign-in/email`, async (request, reply) => {
    const { email } = Object(request.body) as { email?: unknown }
    const answer = await passOnPassword(request, BY_PASSWORD, typeof email === 'string' ? email : '')
    if (!answer.ok) return await send(reply, answer, 'The email address or the password is wrong.')
    await recordSignIn(request, answer, 'password')
    return await send(reply, answer)
  })

  for (const [path, step] of Object.entries(SIGN_IN))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      const before = (await findSession(headersOf(request)))?.signed_in
      const answer = await passOn(request, step)
      if (!answer.ok) return await send(reply, answer)
      if (before === undefined || path.startsWith('passkey/')) await recordSignIn(request, answer, step.by)
      else if (path === 'two-factor/verify-totp' && !before.two_factor_enabled) {
        // The first code confirms that they are set up.
        request.signed_in = before
        const by = actorOf(request, before.tenant?.id ?? null)
        reply.header(AUDIT_HEADER, await appendAuditEntry(sql, by, { action: 'two_factor.enable' }))
      }
      return await send(reply, answer)
    })
  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) =>
    send(reply, await passOn(request, NOTHING)),
  )

  for (const path of READ)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await signedIn(request)
      return await send(reply, await passOn(request, NOTHING))
    })
  for (const [path, { action, proven, ...step }] of Object.entries(CHANGED))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      request.signed_in = await signedIn(request)
      const by = actorOf(request, request.signed_in.tenant?.id ?? null)
      if (path === 'update-user') assertName(request.body)
      const answers = action === null ? undefined : await appendAuditEntry(sql, by, { action })
      if (answers !== undefined) reply.header(AUDIT_HEADER, answers)
      const answer =
        proven === undefined
          ? await passOn(request, step)
          : await passOnPassword(request, step, request.signed_in.email)
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
