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

/** What is read. */
const READ = ['list-sessions', 'passkey/list-user-passkeys', 'passkey/generate-register-options'] as const
/** What somebody who is signed in changes, and what that is called in the audit log; null: nothing changes yet. */
const CHANGED: Record<string, string | null> = {
  'sign-out': 'sign_out',
  'update-user': 'profile.rename',
  'change-password': 'profile.change_password',
  'revoke-session': 'profile.end_session',
  'revoke-other-sessions': 'profile.end_other_sessions',
  'two-factor/enable': null,
  'two-factor/disable': 'two_factor.disable',
  'two-factor/generate-backup-codes': 'two_factor.new_backup_codes',
  'passkey/verify-registration': 'passkeys.add',
  'passkey/delete-passkey': 'passkeys.remove',
  'passkey/update-passkey': 'passkeys.rename',
}
/** The steps of signing in after which somebody is; a one-time code also confirms that codes are set up. */
const SIGN_IN: Record<string, string> = {
  'two-factor/verify-totp': 'one-time code',
  'two-factor/verify-backup-code': 'backup code',
  'passkey/verify-authentication': 'passkey',
}
const tooMany = () => new AppError('overloaded')
/** Hashing a password takes 32 MB and a tenth of a second of a processor. */
const HASHING = { running: 4, queue: { waiting: 64, wait_ms: 5_000, refuse: tooMany } }

export function signInRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { config, sessions, findSession, signedIn, sql, hashOf } = context
  const hashing = createGate(HASHING)

  async function passOn(request: FastifyRequest, ip = request.ip): Promise<Response> {
    const headers = headersOf(request)
    headers.set(ADDRESS_HEADER, ip)
    return await sessions.handle(
      new Request(`${originOf(config, request)}${request.url}`, {
        method: request.method,
        headers,
        ...(request.method === 'POST' && { body: JSON.stringify(request.body ?? {}) }),
      }),
    )
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
    const attempt = {
      account: hashOf('email', typeof email === 'string' ? email.slice(0, 320).toLowerCase() : ''),
      address: networkOf(request.ip),
    }
    const retry_after_s = await countSignIn(sql, attempt)
    if (retry_after_s !== null)
      throw new AppError('rate_limited', {
        message: 'Too many wrong passwords: wait before you try again.',
        retry_after_s,
      })
    const answer = await hashing(() => passOn(request))
    if (!answer.ok) return await send(reply, answer, 'The email address or the password is wrong.')
    await forgetSignIn(sql, attempt)
    await recordSignIn(request, answer, 'password')
    return await send(reply, answer)
  })

  for (const path of Object.keys(SIGN_IN))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      const before = await findSession(headersOf(request))
      const answer = await passOn(request)
      if (answer.ok && before === undefined) await recordSignIn(request, answer, SIGN_IN[path]!)
      else if (answer.ok && before !== undefined) {
        request.signed_in = before.signed_in
        const action = 'two_factor.enable'
        await appendAuditEntry(sql, actorOf(request, before.signed_in.tenant?.id ?? null), { action })
      }
      return await send(reply, answer)
    })
  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) =>
    send(reply, await passOn(request)),
  )

  for (const path of READ)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await signedIn(request)
      return await send(reply, await passOn(request))
    })
  for (const [path, action] of Object.entries(CHANGED))
    app.post(`${AUTH_PATH}/${path}`, async (request, reply) => {
      request.signed_in = await signedIn(request)
      const by = actorOf(request, request.signed_in.tenant?.id ?? null)
      const answers = action === null ? undefined : await appendAuditEntry(sql, by, { action })
      const answer = await hashing(() => passOn(request))
      if (action !== null && answers !== undefined)
        await appendAuditEntry(sql, by, { action, answers, details: { status: answer.status } })
      return await send(reply, answer)
    })
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
