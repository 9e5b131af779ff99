// Settings, Members: who belongs to a tenant and as what, and who is invited.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { bareAddress } from '#core/addresses.ts'
import { AppError } from '#core/errors.ts'
import { isMailAddress } from '#core/mail-address.ts'
import { requestMessages } from '#domain/messages/request.ts'
import { NO_LIMITS, requestSystemEmail } from '#domain/messages/system-email.ts'
import { findMembers } from '#domain/people/find.ts'
import { invitationEmail } from '#domain/people/invitation-email.ts'
import {
  findInvitations,
  invite,
  revokeInvitation,
  type InviteResult,
  type RevokeResult,
} from '#domain/people/invitations.ts'
import { changeRole, removeMember, type MemberResult } from '#domain/people/members.ts'
import { roleSchema } from '#domain/people/role.ts'
import {
  actorOf,
  asMember,
  inTenant,
  mailsInvitations,
  type DashboardContext,
  type InTenant,
} from '../context.ts'
import { originOf } from '../guard.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { assertMay } from '../roles.ts'

const memberSchema = z.object({
  user_id: z.uuid(),
  name: z.string(),
  email: z.string(),
  /** Else nobody has shown that they read what is sent there. */
  email_verified: z.boolean(),
  role: roleSchema,
  two_factor_enabled: z.boolean(),
  created_at: z.string(),
})
const invitationSchema = z.object({
  id: z.uuid(),
  email: z.string(),
  role: roleSchema,
  invited_by: z.string().nullable(),
  created_at: z.string(),
  expires_at: z.string(),
})
const membersSchema = z.object({ members: z.array(memberSchema), invitations: z.array(invitationSchema) })
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
  /** Where no email is sent, also because the address has had enough: to be passed on by hand. */
  link: z.string().nullable(),
  sent: z.boolean(),
})
const byId = z.strictObject({ id: z.uuid().toLowerCase() })
const byUser = z.strictObject({ user_id: z.uuid().toLowerCase() })

export function memberRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, config, vault, hashOf } = context
  const sends_email = mailsInvitations(context)

  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/members',
    { schema: { response: { 200: membersSchema } }, config: { look: 'listMembers' } },
    async (request) => {
      const { tenant } = inTenant(request)
      const [members, invitations] = [
        await findMembers(request.sql, tenant.id),
        await findInvitations(request.sql, tenant.id),
      ]
      return { members, invitations }
    },
  )

  app.post(
    '/api/members/invitations',
    { schema: { body: inviteBody, response: { 201: invitedSchema } } },
    async (request, reply) => {
      const { tenant, name } = manager(request)
      const { email, role } = request.body
      // Where it is mailed without DASHBOARD_URL, people are at this machine.
      const origin =
        sends_email && config.DASHBOARD_URL === undefined
          ? `http://localhost:${request.socket.localPort}`
          : originOf(config, request)
      const linkOf = (token: string) => `${origin}/invitation/${token}`
      const by = actorOf(request, tenant.id)
      const invited = await invite(
        sql,
        { tenant_id: tenant.id, email, role, by, mailed: sends_email },
        async (tx, { id, token }) => {
          const mail = requestSystemEmail(
            { vault, hashOf, from: config.SYSTEM_EMAIL_FROM! },
            {
              about: 'invitation',
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
      if ('refused' in invited) throw refusal(invited.refused)
      const { id, token, expires_at, mailed, audit_entry } = invited
      return await reply
        .code(201)
        .header(AUDIT_HEADER, audit_entry)
        .send({ id, email, role, expires_at, link: mailed ? null : linkOf(token), sent: mailed })
    },
  )

  app.post('/api/members/invitations/:id/revoke', { schema: { params: byId } }, async (request, reply) => {
    const { tenant } = manager(request)
    const asked = { tenant_id: tenant.id, id: request.params.id, by: actorOf(request, tenant.id) }
    const audit_entry = changed(await revokeInvitation(sql, asked))
    return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
  })

  app.patch(
    '/api/members/:user_id',
    { schema: { params: byUser, body: z.strictObject({ role: roleSchema }) } },
    async (request, reply) => {
      const change = { ...changeOf(request, request.params.user_id), role: request.body.role }
      const audit_entry = changed(await changeRole(sql, change))
      return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
    },
  )

  app.delete('/api/members/:user_id', { schema: { params: byUser } }, async (request, reply) => {
    const audit_entry = changed(await removeMember(sql, changeOf(request, request.params.user_id)))
    return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
  })
}

function manager(request: FastifyRequest): InTenant {
  const member = asMember(request)
  assertMay(member.role, 'members.manage')
  return member
}

function changeOf(request: FastifyRequest, user_id: string) {
  const { tenant } = manager(request)
  return { tenant_id: tenant.id, user_id, by: actorOf(request, tenant.id) }
}

function changed(result: MemberResult | RevokeResult): number {
  if ('refused' in result) throw refusal(result.refused)
  return result.changed
}

type Refused = Extract<MemberResult | RevokeResult | InviteResult, { refused: string }>['refused']
const OWNERS_ONLY = {
  message: 'Only owners may make, change or remove owners.',
  context: { roles: ['owner'] },
}

function refusal(refused: Refused): AppError {
  if (refused === 'no_manager') return new AppError('forbidden')
  if (refused === 'owners_only') return new AppError('forbidden', OWNERS_ONLY)
  if (refused === 'no_member') return new AppError('not_found', { message: 'There is no such member.' })
  if (refused === 'no_invitation')
    return new AppError('not_found', { message: 'There is no such open invitation.' })
  if (refused === 'member')
    return new AppError('conflict', { param: 'email', message: 'This address is already a member.' })
  return new AppError('conflict', { message: 'A tenant needs an owner: make someone else an owner first.' })
}
