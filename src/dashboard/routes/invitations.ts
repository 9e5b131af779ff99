// Shows and accepts an invitation, also for people who are not signed in.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { nameText } from '#core/names.ts'
import { acceptInvitation, findOpenInvitation } from '#domain/people/invitations.ts'
import { PASSWORD_LENGTH } from '#domain/people/password.ts'
import { roleSchema } from '#domain/people/role.ts'
import { createUser } from '#domain/people/users.ts'
import { actorOf, type DashboardContext } from '../context.ts'
import { createHashingGate } from '../passwords.ts'

const params = z.strictObject({ token: z.string().regex(/^[\w-]{43}$/) })
const invitationView = z.object({
  tenant: z.string(),
  email: z.string(),
  role: roleSchema,
  /** Whether the email address has an account. Null if the link was not emailed: its reader may not own the address. */
  has_user: z.boolean().nullable(),
})
const acceptBody = z.strictObject({
  name: nameText,
  password: z.string().min(PASSWORD_LENGTH.min).max(PASSWORD_LENGTH.max),
})
/** Rate limit of each client network. */
const LIMIT = { rps: 1, burst: 20 }

export function invitationRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, sessions, findSession } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const limit = createLimit(LIMIT)
  const hashing = createHashingGate({ running: 2, waiting: 32 })

  app.get(
    '/api/invitations/:token',
    { schema: { params, response: { 200: invitationView } } },
    async (request, reply) => {
      limit(networkOf(request.ip), reply)
      const found = await findOpenInvitation(sql, request.params.token)
      if (found === undefined) throw invitationNotFound()
      return { ...found, has_user: found.mailed ? found.has_user : null }
    },
  )

  app.post(
    '/api/invitations/:token/accept',
    { schema: { params, body: acceptBody.nullish(), response: { 200: z.object({ email: z.string() }) } } },
    async (request, reply) => {
      limit(networkOf(request.ip), reply)
      const { token } = request.params
      const invitation = await findOpenInvitation(sql, token)
      if (invitation === undefined) throw invitationNotFound()
      const { tenant_id, email, has_user, mailed } = invitation
      const { body } = request
      request.signed_in = (await findSession(request))?.signed_in
      if (request.signed_in?.email === email) {
        const by = actorOf(request, tenant_id)
        const user_id = request.signed_in.user_id
        await sql.begin(async (tx) =>
          assertAccepted(await acceptInvitation(tx, { tenant_id, token, user_id, by })),
        )
        return { email }
      }
      if (has_user || body == null)
        throw new AppError('unauthorized', {
          message: `Sign in as ${email} to accept the invitation, or send a name and a password to create an account.`,
        })
      const { name, password } = body
      const password_hash = await hashing(() => sessions.hashPassword(password))
      await sql.begin(async (tx) => {
        const user_id = await createUser(tx, { name, email, email_verified: mailed, password_hash })
        if (user_id === undefined) throw invitationNotFound()
        const by = { tenant_id, actor_id: user_id, request_id: request.id, address: request.ip }
        assertAccepted(await acceptInvitation(tx, { tenant_id, token, user_id, by }))
      })
      return { email }
    },
  )
}

function assertAccepted(accepted: boolean): void {
  if (!accepted) throw invitationNotFound()
}

function invitationNotFound(): AppError {
  return new AppError('not_found', {
    message: 'This invitation was used or revoked, or has expired. Ask for a new one.',
  })
}
