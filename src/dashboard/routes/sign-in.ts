// The steps of a sign-in by password, code or passkey. They are rate-limited and recorded.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { endSession, findCodeSecret, useCodeStep } from '#domain/people/credentials.ts'
import type { SignedIn } from '#domain/people/find.ts'
import { createAuthRelay, sendAuthResponse, type AuthEndpoint } from '../auth-relay.ts'
import { actorOf, type DashboardContext } from '../context.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { timeStepOf } from '../one-time-codes.ts'
import { createPasswordGuard } from '../passwords.ts'
import { AUTH_PATH } from '../sessions.ts'

const text = z.string().max(4_096)
const passwordBody = z.object({ email: text, password: text, rememberMe: z.boolean().optional() })
const codeBody = z.object({ code: text })

/**
 * Steps of a sign-in. `by`: the method, for the audit entry. `single_use_code`: each code is accepted once.
 * `signs_in_again`: a signed-in user can start a new session.
 */
const SIGN_IN: Record<
  string,
  AuthEndpoint & { by: string; single_use_code?: boolean; signs_in_again?: boolean }
> = {
  'two-factor/verify-totp': { body: codeBody, by: 'one-time code', single_use_code: true },
  'two-factor/verify-backup-code': { body: codeBody, by: 'backup code' },
  'passkey/verify-authentication': {
    body: z.object({ response: z.looseObject({}) }),
    by: 'passkey',
    signs_in_again: true,
  },
}
/** Limit of each client network: a challenge is a row that is stored for five minutes. */
const CHALLENGE_LIMIT = { rps: 0.2, burst: 20 }

export function signInRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, database, findSession } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const { forward, sessionOf, endOtherSessions } = createAuthRelay(context)
  const limitChallenges = createLimit(CHALLENGE_LIMIT)
  const guardPassword = createPasswordGuard(context)

  /** Records a sign-in if the response starts a session. Otherwise another step follows. */
  async function recordSignIn(request: FastifyRequest, response: Response, by: string): Promise<void> {
    const found = await sessionOf(response)
    if (found === undefined) return
    request.signed_in = found.signed_in
    const tenant_id = found.signed_in.tenant?.id ?? null
    await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'sign_in', details: { by } })
  }

  app.post(`${AUTH_PATH}/sign-in/email`, { schema: { body: passwordBody } }, async (request, reply) => {
    const response = await guardPassword(request, reply, request.body.email, () => forward(request))
    if (!response.ok)
      return await sendAuthResponse(reply, response, 'The email address or the password is wrong.')
    await recordSignIn(request, response, 'password')
    return await sendAuthResponse(reply, response)
  })

  for (const [path, { body, by, single_use_code = false, signs_in_again = false, ...step }] of Object.entries(
    SIGN_IN,
  ))
    app.post(`${AUTH_PATH}/${path}`, { schema: { body } }, async (request, reply) => {
      const current_user = (await findSession(request))?.signed_in
      const response = await forward(request, step)
      if (!response.ok) return await sendAuthResponse(reply, response)
      if (single_use_code) {
        const new_user = current_user === undefined ? (await sessionOf(response))?.signed_in : undefined
        await consumeCode(context, request.body, { current_user, new_user })
      }
      if (current_user === undefined || signs_in_again) await recordSignIn(request, response, by)
      else if (single_use_code && !current_user.two_factor_enabled) {
        // This is the first correct code of the user, which turns two-factor authentication on.
        request.signed_in = current_user
        const actor = actorOf(request, current_user.tenant?.id ?? null)
        reply.header(AUDIT_HEADER, await appendAuditEntry(sql, actor, { action: 'two_factor.enable' }))
        await endOtherSessions(request, response, current_user.user_id)
      }
      return await sendAuthResponse(reply, response)
    })

  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) => {
    limitChallenges(networkOf(request.ip), reply)
    // The challenge is stored.
    const response = await database.unlessMoved(() => forward(request))
    return await sendAuthResponse(reply, response)
  })
}

/**
 * Marks a correct code as used. Throws `unauthorized` if it was used before. `current_user`: the user who was already
 * signed in. `new_user`: the user that the code signs in.
 */
async function consumeCode(
  context: DashboardContext,
  body: unknown,
  { current_user, new_user }: { current_user: SignedIn | undefined; new_user: SignedIn | undefined },
): Promise<void> {
  const found = current_user ?? new_user
  if (found !== undefined && (await markCodeUsed(context, body, found.user_id))) return
  if (current_user !== undefined)
    throw new AppError('unauthorized', {
      message: 'This code was used before. Wait for the next one.',
    })
  if (new_user !== undefined) await endSession(context.sql, new_user.session_id)
  // better-auth has finished this sign-in and accepts no further code for it, so the user must start again.
  throw new AppError('unauthorized', {
    message: 'This code was used before. Sign in again with the next one.',
    context: { restart_required: true },
  })
}

/** Returns whether a correct code is used for the first time. */
async function markCodeUsed(
  { sql, sessions }: DashboardContext,
  body: unknown,
  user_id: string,
): Promise<boolean> {
  const { code } = codeBody.parse(body)
  const sealed = await findCodeSecret(sql, user_id)
  if (sealed === undefined) return false
  const step = timeStepOf(await sessions.decrypt(sealed), code, Date.now())
  return step !== undefined && (await useCodeStep(sql, user_id, step))
}
