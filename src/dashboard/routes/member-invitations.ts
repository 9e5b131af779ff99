// Settings, Members: invites people, and revokes invitations.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { bareAddress } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import { isMailAddress } from '#core/mail-address.ts'
import { requestMessages } from '#domain/messages/request.ts'
import { NO_LIMITS, systemEmailRequest } from '#domain/messages/system-email.ts'
import { invitationEmail } from '#domain/people/invitation-email.ts'
import { invite, revokeInvitation } from '#domain/people/invitations.ts'
import { roleSchema } from '#domain/people/role.ts'
import { actorOf, canEmailInvitations, type DashboardContext } from '../context.ts'
import { originOf } from '../guard.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { auditEntryOf, requireManager, memberRefusal } from './members.ts'

const inviteBody = z.strictObject({
  email: z
    .string()
    .trim()
    .max(320, { abort: true })
    .refine((text) => isMailAddress(text), { error: 'must be an email address' })
    .transform((text) => bareAddress(text).toLowerCase()),
  role: roleSchema,
})
const invitedSchema = z.object({
  id: z.uuid(),
  email: z.string(),
  role: roleSchema,
  expires_at: z.string(),
  /** Null if an email was sent; otherwise the link has to be passed on by hand. */
  link: z.string().nullable(),
  sent: z.boolean(),
})
const byId = z.strictObject({ id: z.uuid().toLowerCase() })

export function memberInvitationRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, config, vault, hashOf } = context
  const sends_email = canEmailInvitations(context)
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/api/members/invitations',
    { schema: { body: inviteBody, response: { 201: invitedSchema } } },
    async (request, reply) => {
      const { tenant, name } = requireManager(request)
      const { email, role } = request.body
      const origin = linkOrigin(config, request, sends_email)
      const linkOf = (token: string) => `${origin}/invitation/${token}`
      const by = actorOf(request, tenant.id)
      const invited = await invite(
        sql,
        { tenant_id: tenant.id, email, role, by, mailed: sends_email },
        async (tx, { id, token }) => {
          const mail = systemEmailRequest(
            { vault, hashOf, from: config.SYSTEM_EMAIL_FROM! },
            {
              purpose: 'invitation',
              idempotency_key: `invitation ${id}`,
              email: {
                to: email,
                ...invitationEmail({
                  by: name,
                  tenant: tenant.name,
                  slug: tenant.slug,
                  link: linkOf(token),
                }),
              },
              metadata: { tenant_id: tenant.id, invitation_id: id },
            },
          )
          await requestMessages(tx, 'email', NO_LIMITS, [mail])
        },
      )
      if ('refused' in invited) throw memberRefusal(invited.refused)
      const { id, token, expires_at, mailed, audit_entry } = invited
      return await reply
        .code(201)
        .header(AUDIT_HEADER, audit_entry)
        .send({ id, email, role, expires_at, link: mailed ? null : linkOf(token), sent: mailed })
    },
  )

  app.post('/api/members/invitations/:id/revoke', { schema: { params: byId } }, async (request, reply) => {
    const { tenant } = requireManager(request)
    const invitation = { tenant_id: tenant.id, id: request.params.id, by: actorOf(request, tenant.id) }
    const audit_entry = auditEntryOf(await revokeInvitation(sql, invitation))
    return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
  })
}

/** The origin of an invitation's link. Without DASHBOARD_URL, emailed links use localhost. */
function linkOrigin(config: Config, request: FastifyRequest, mailed: boolean): string {
  return mailed && config.DASHBOARD_URL === undefined
    ? `http://localhost:${request.socket.localPort}`
    : originOf(config, request)
}
