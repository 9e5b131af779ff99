// What people read and change of their own account: name, password, sessions, codes and passkeys.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { findPasskeyNames, findPasswordHash, removePasskeys } from '#domain/people/credentials.ts'
import { personName } from '#domain/people/users.ts'
import { createAuthRelay, sendAnswer, type Served } from '../auth-relay.ts'
import type { DashboardContext } from '../context.ts'
import { recordAct } from '../on-record.ts'
import { createPasswordGuard } from '../passwords.ts'
import { AUTH_PATH } from '../sessions.ts'

/** Paths that only read. */
const READ = ['list-sessions', 'passkey/list-user-passkeys'] as const

const text = z.string().max(4_096)
/** A missing password counts as a wrong one. */
const withPassword = z.object({ password: text.optional() })
const nothing = z.object({})
const newPassword = z.object({
  currentPassword: text,
  newPassword: text,
  remove_passkeys: z.boolean().optional(),
})

/**
 * A change by a user who is signed in. `action`: its name in the audit log; null: nothing changes yet. `proven`: it
 * needs the password again, which the step checks, or we do. `ends`: all other sessions end, because a credential
 * changed. `tells_passkeys`: the answer lists the passkeys that are left.
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
    // Another person who knows the old password may have a session.
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
  // A passkey would make a stolen session permanent. Checked here too, so that no passkey is created in vain.
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

export function accountRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { signedIn } = context
  const { passOn, endOthers } = createAuthRelay(context)
  // A separate guard: users who are signed in do not delay sign-ins.
  const guarded = createPasswordGuard(context)

  for (const path of READ)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await signedIn(request)
      return await sendAnswer(reply, await passOn(request))
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
        const attempt = () =>
          proven === 'by us' ? checkPassword(context, request.body, user_id) : passOn(request, step)
        let answer = proven === undefined ? await attempt() : await guarded(request, reply, email, attempt)
        if (proven === 'by us' && answer.ok) answer = await passOn(request, step)
        if (ends && answer.ok) await endOthers(request, answer, user_id)
        if (tells_passkeys && answer.ok) answer = await withPasskeys(context, request.body, answer, user_id)
        return await sendAnswer(reply, answer)
      },
    )
}

/** Answers 200 if the password in the body is that of the user. */
async function checkPassword(
  { sql, sessions }: DashboardContext,
  body: unknown,
  user_id: string,
): Promise<Response> {
  const { password } = withPassword.parse(body)
  const hash = await findPasswordHash(sql, user_id)
  const right =
    password !== undefined && hash !== undefined && (await sessions.verifyPassword(hash, password))
  return right ? Response.json({}) : Response.json({ code: 'INVALID_PASSWORD' }, { status: 400 })
}

/** Removes the passkeys on request, and lists those left: a person who knew the password may have added one. */
async function withPasskeys(
  { sql }: DashboardContext,
  asked: unknown,
  answer: Response,
  user_id: string,
): Promise<Response> {
  if (newPassword.parse(asked).remove_passkeys === true) await removePasskeys(sql, user_id)
  const body = { ...Object(await answer.json()), passkeys: await findPasskeyNames(sql, user_id) }
  return Response.json(body, { headers: answer.headers })
}
