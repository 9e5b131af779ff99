// Sign-in: its steps, by password, code or passkey, limited and recorded.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { endSession, findCodeSecret, takeCodeStep } from '#domain/people/credentials.ts'
import type { SignedIn } from '#domain/people/find.ts'
import { createAuthRelay, sendAnswer, type Served } from '../auth-relay.ts'
import { actorOf, type DashboardContext } from '../context.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { stepOf } from '../one-time-codes.ts'
import { createPasswordGuard } from '../passwords.ts'
import { AUTH_PATH } from '../sessions.ts'

const text = z.string().max(4_096)
const byPassword = z.object({ email: text, password: text, rememberMe: z.boolean().optional() })
const withCode = z.object({ code: text })

/**
 * Steps of a sign-in. `by`: the method that the audit entry names. `takes_code`: a code works once. `anew`: it also
 * starts a new sign-in for a user who is signed in.
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
/** For each address: a challenge is a row that is stored for five minutes. */
const CHALLENGES = { rps: 0.2, burst: 20 }

export function signInRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, findSession } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const { passOn, sessionOf, endOthers } = createAuthRelay(context)
  const challenges = createLimit(CHALLENGES)
  const guarded = createPasswordGuard(context)

  /** Records a sign-in if the answer has a session; without one, another step follows. */
  async function recordSignIn(request: FastifyRequest, answer: Response, by: string): Promise<void> {
    const found = await sessionOf(answer)
    if (found === undefined) return
    request.signed_in = found.signed_in
    const tenant_id = found.signed_in.tenant?.id ?? null
    await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'sign_in', details: { by } })
  }

  app.post(`${AUTH_PATH}/sign-in/email`, { schema: { body: byPassword } }, async (request, reply) => {
    const answer = await guarded(request, reply, request.body.email, () => passOn(request))
    if (!answer.ok) return await sendAnswer(reply, answer, 'The email address or the password is wrong.')
    await recordSignIn(request, answer, 'password')
    return await sendAnswer(reply, answer)
  })

  for (const [path, { body, by, takes_code = false, anew = false, ...step }] of Object.entries(SIGN_IN))
    app.post(`${AUTH_PATH}/${path}`, { schema: { body } }, async (request, reply) => {
      const before = (await findSession(request))?.signed_in
      const answer = await passOn(request, step)
      if (!answer.ok) return await sendAnswer(reply, answer)
      if (takes_code) {
        const given = before === undefined ? (await sessionOf(answer))?.signed_in : undefined
        await useUpCode(context, request.body, { before, given })
      }
      if (before === undefined || anew) await recordSignIn(request, answer, by)
      else if (takes_code && !before.two_factor_enabled) {
        // The first code confirms that they are set up.
        request.signed_in = before
        const actor = actorOf(request, before.tenant?.id ?? null)
        reply.header(AUDIT_HEADER, await appendAuditEntry(sql, actor, { action: 'two_factor.enable' }))
        await endOthers(request, answer, before.user_id)
      }
      return await sendAnswer(reply, answer)
    })

  app.get(`${AUTH_PATH}/passkey/generate-authenticate-options`, async (request, reply) => {
    challenges(networkOf(request.ip), reply)
    return await sendAnswer(reply, await passOn(request))
  })
}

/**
 * Marks a correct code as used. Throws `unauthorized` if it was used before. `before`: the user who was already signed
 * in. `given`: the user whom the code signs in.
 */
async function useUpCode(
  context: DashboardContext,
  body: unknown,
  { before, given }: { before: SignedIn | undefined; given: SignedIn | undefined },
): Promise<void> {
  const found = before ?? given
  if (found !== undefined && (await takeCode(context, body, found.user_id))) return
  if (before !== undefined)
    throw new AppError('unauthorized', {
      message: 'This code was used before. Wait for the next one.',
    })
  if (given !== undefined) await endSession(context.sql, given.session_id)
  // For better-auth this sign-in has ended, so the next code cannot complete it.
  throw new AppError('unauthorized', {
    message: 'This code was used before. Sign in again with the next one.',
    context: { starts_again: true },
  })
}

/** Returns whether a correct code is used for the first time. */
async function takeCode(
  { sql, sessions }: DashboardContext,
  body: unknown,
  user_id: string,
): Promise<boolean> {
  const { code } = withCode.parse(body)
  const sealed = await findCodeSecret(sql, user_id)
  if (sealed === undefined) return false
  const step = stepOf(await sessions.open(sealed), code, Date.now())
  return step !== undefined && (await takeCodeStep(sql, user_id, step))
}
