// Routes of the user's own account: name, password, sessions, one-time codes and passkeys.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { nameText } from '#core/names.ts'
import { findPasskeyNames, findPasswordHash, removePasskeys } from '#domain/people/credentials.ts'
import { createAuthRelay, sendAuthResponse, type AuthEndpoint } from '../auth-relay.ts'
import type { DashboardContext } from '../context.ts'
import { recordAct } from '../on-record.ts'
import { createPasswordGuard } from '../passwords.ts'
import { AUTH_PATH } from '../sessions.ts'

const READ_PATHS = ['list-sessions', 'passkey/list-user-passkeys'] as const

const text = z.string().max(4_096)
/** A missing password counts as a wrong one. */
const passwordBody = z.object({ password: text.optional() })
const emptyBody = z.object({})
const newPasswordBody = z.object({
  currentPassword: text,
  newPassword: text,
  remove_passkeys: z.boolean().optional(),
})

/**
 * A change of the user's own account. `action`: its name in the audit log; null: nothing changes yet. `password_check`:
 * the program that checks the password; missing: none is required. `ends_sessions`: all other sessions end, because a
 * credential changed. `lists_passkeys`: the response lists the remaining passkeys.
 */
type AccountChange = AuthEndpoint & {
  action: string | null
  password_check?: 'better-auth' | 'dashboard'
  ends_sessions?: boolean
  lists_passkeys?: boolean
}
const CHANGES: Record<string, AccountChange> = {
  'sign-out': { body: emptyBody, action: 'sign_out' },
  'update-user': {
    body: z.object({ name: nameText }),
    action: 'profile.rename',
  },
  'change-password': {
    body: newPasswordBody,
    local_fields: ['remove_passkeys'],
    // Another person who knows the old password may have a session.
    added_fields: { revokeOtherSessions: true },
    action: 'profile.change_password',
    password_check: 'better-auth',
    ends_sessions: true,
    lists_passkeys: true,
  },
  'revoke-session': { body: z.object({ token: text }), action: 'profile.end_session' },
  'revoke-other-sessions': { body: emptyBody, action: 'profile.end_other_sessions' },
  'two-factor/enable': { body: passwordBody, action: null, password_check: 'better-auth' },
  'two-factor/disable': {
    body: passwordBody,
    action: 'two_factor.disable',
    password_check: 'better-auth',
    ends_sessions: true,
  },
  'two-factor/generate-backup-codes': {
    body: passwordBody,
    action: 'two_factor.new_backup_codes',
    password_check: 'better-auth',
  },
  // Adding a passkey requires the password, because a passkey would make a stolen session permanent. The password is
  // checked before the browser creates the passkey.
  'passkey/generate-register-options': {
    body: passwordBody,
    method: 'GET',
    action: null,
    password_check: 'dashboard',
  },
  'passkey/verify-registration': {
    body: passwordBody.extend({ response: z.looseObject({}), name: text.optional() }),
    local_fields: ['password'],
    action: 'passkeys.add',
    password_check: 'dashboard',
  },
  'passkey/delete-passkey': {
    body: passwordBody.extend({ id: text }),
    local_fields: ['password'],
    action: 'passkeys.remove',
    password_check: 'dashboard',
  },
  'passkey/update-passkey': { body: z.object({ id: text, name: text }), action: 'passkeys.rename' },
}

export function accountRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { database, requireSession } = context
  const { forward, endOtherSessions } = createAuthRelay(context)
  // A guard of its own, so that password checks of signed-in users do not use up the capacity of sign-ins.
  const guardPassword = createPasswordGuard(context)

  for (const path of READ_PATHS)
    app.get(`${AUTH_PATH}/${path}`, async (request, reply) => {
      await requireSession(request)
      // better-auth extends the session, too.
      const response = await database.unlessMoved(() => forward(request))
      return await sendAuthResponse(reply, response)
    })

  for (const [
    path,
    { body, action, password_check, ends_sessions = false, lists_passkeys = false, ...step },
  ] of Object.entries(CHANGES))
    app.post(
      `${AUTH_PATH}/${path}`,
      { schema: { body: body === emptyBody ? body.nullish() : body } },
      async (request, reply) => {
        const { user_id, email, tenant } = await requireSession(request)
        if (action !== null) await recordAct(context, request, reply, tenant?.id ?? null, { action })
        const attempt = () =>
          password_check === 'dashboard'
            ? checkPassword(context, request.body, user_id)
            : forward(request, step)
        let response =
          password_check === undefined ? await attempt() : await guardPassword(request, reply, email, attempt)
        if (password_check === 'dashboard' && response.ok) response = await forward(request, step)
        if (ends_sessions && response.ok) await endOtherSessions(request, response, user_id)
        if (lists_passkeys && response.ok)
          response = await withPasskeys(context, request.body, response, user_id)
        return await sendAuthResponse(reply, response)
      },
    )
}

/** Responds with 200 if the body has the user's password, otherwise with 400. */
async function checkPassword(
  { sql, sessions }: DashboardContext,
  body: unknown,
  user_id: string,
): Promise<Response> {
  const { password } = passwordBody.parse(body)
  const hash = await findPasswordHash(sql, user_id)
  const matches =
    password !== undefined && hash !== undefined && (await sessions.verifyPassword(hash, password))
  return matches ? Response.json({}) : Response.json({ code: 'INVALID_PASSWORD' }, { status: 400 })
}

/**
 * Removes the passkeys if the change of the password requests it, and adds the names of the remaining passkeys to the
 * response. The user should check them: a person who knew the old password may have added a passkey.
 */
async function withPasskeys(
  { sql }: DashboardContext,
  request_body: unknown,
  response: Response,
  user_id: string,
): Promise<Response> {
  if (newPasswordBody.parse(request_body).remove_passkeys === true) await removePasskeys(sql, user_id)
  const body = { ...Object(await response.json()), passkeys: await findPasskeyNames(sql, user_id) }
  return Response.json(body, { headers: response.headers })
}
