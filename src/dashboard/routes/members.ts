// Settings, Members: lists members, changes their roles and removes them.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { findMembers } from '#domain/people/find.ts'
import { findInvitations, type InviteResult, type RevokeResult } from '#domain/people/invitations.ts'
import { changeRole, removeMember, type MemberResult } from '#domain/people/members.ts'
import { roleSchema } from '#domain/people/role.ts'
import { actorOf, requireMember, requireTenant, type DashboardContext, type TenantUser } from '../context.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { assertAllowed } from '../roles.ts'

const memberSchema = z.object({
  user_id: z.uuid(),
  name: z.string(),
  email: z.string(),
  /** False: the user has not proven that they receive email at the address. */
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
const byUser = z.strictObject({ user_id: z.uuid().toLowerCase() })

export function memberRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/members',
    { schema: { response: { 200: membersSchema } }, config: { audit_action: 'listMembers' } },
    async (request) => {
      const { live_id } = requireTenant(request).tenant
      const [members, invitations] = [
        await findMembers(request.sql, live_id),
        await findInvitations(request.sql, live_id),
      ]
      return { members, invitations }
    },
  )

  app.patch(
    '/api/members/:user_id',
    { schema: { params: byUser, body: z.strictObject({ role: roleSchema }) } },
    async (request, reply) => {
      const change = { ...changeOf(request, request.params.user_id), role: request.body.role }
      const audit_entry = auditEntryOf(await changeRole(sql, change))
      return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
    },
  )

  app.delete('/api/members/:user_id', { schema: { params: byUser } }, async (request, reply) => {
    const audit_entry = auditEntryOf(await removeMember(sql, changeOf(request, request.params.user_id)))
    return await reply.code(204).header(AUDIT_HEADER, audit_entry).send()
  })
}

/** Throws `forbidden` unless the member may manage members, and in test mode: a twin has the members of its tenant. */
export function requireManager(request: FastifyRequest): TenantUser {
  const member = requireMember(request)
  assertAllowed(member.role, 'members.manage')
  if (member.tenant.mode === 'test')
    throw new AppError('forbidden', {
      message: 'Members and roles are those of both modes: change them in live mode.',
    })
  return member
}

function changeOf(request: FastifyRequest, user_id: string) {
  const { tenant } = requireManager(request)
  return { tenant_id: tenant.id, user_id, by: actorOf(request, tenant.id) }
}

/** Returns the number of a change's audit entry. Throws if the change was refused. */
export function auditEntryOf(result: MemberResult | RevokeResult): number {
  if ('refused' in result) throw memberRefusal(result.refused)
  return result.changed
}

type RefusalReason = Extract<MemberResult | RevokeResult | InviteResult, { refused: string }>['refused']
const OWNERS_ONLY = {
  message: 'Only owners may make, change or remove owners.',
  context: { roles: ['owner'] },
}

export function memberRefusal(refused: RefusalReason): AppError {
  if (refused === 'no_manager') return new AppError('forbidden')
  if (refused === 'owners_only') return new AppError('forbidden', OWNERS_ONLY)
  if (refused === 'no_member') return new AppError('not_found', { message: 'There is no such member.' })
  if (refused === 'no_invitation')
    return new AppError('not_found', { message: 'There is no such open invitation.' })
  if (refused === 'member')
    return new AppError('conflict', { param: 'email', message: 'This address is already a member.' })
  return new AppError('conflict', { message: 'A tenant needs an owner: make someone else an owner first.' })
}
