// The sandbox of a tenant in test mode: its inbox, and the acts of buyers, banks, verified persons and phones.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireResource } from '#api/refusals.ts'
import { nextPage } from '#api/route.ts'
import { CHANNELS } from '#core/addresses.ts'
import { IDENTITY } from '#core/config/providers.ts'
import { dateTime } from '#core/time.ts'
import type { AuditSubject } from '#domain/people/audit-target.ts'
import { requireMember, requireTestTenant, type DashboardContext } from '../context.ts'
import { recordAct } from '../on-record.ts'
import { assertAllowed } from '../roles.ts'
import {
  SANDBOX_OUTCOMES,
  INBOX_STATUSES,
  type InboxEntry,
  type InboxEntryDetails,
  type LinkedVerification,
  type SandboxResult,
} from '../sandbox.ts'

const inboxEntrySchema = z.object({
  id: z.uuid(),
  channel: z.enum(CHANNELS),
  /** The provider's id of the message. */
  reference: z.string(),
  status: z.enum(INBOX_STATUSES),
  from: z.string(),
  to: z.array(z.string()),
  subject: z.string().nullable(),
  created_at: z.string(),
}) satisfies z.ZodType<InboxEntry>
const inboxMessageSchema = inboxEntrySchema.extend({
  text: z.string().nullable(),
  html: z.string().nullable(),
  attachments: z.array(z.object({ filename: z.string(), content_type: z.string(), bytes: z.int() })),
}) satisfies z.ZodType<InboxEntryDetails>

const inboxQuery = z.strictObject({
  channel: z.enum(CHANNELS).optional(),
  to: z.string().trim().max(320).optional(),
  before: dateTime.optional(),
  limit: z.coerce.number().int().min(1).max(100).default(25),
})
/** `session`: the provider's id of a verification, from its link. */
const linkQuery = z.strictObject({ session: z.string().regex(IDENTITY.reference).max(255) })
const linkedVerificationSchema = z.object({
  id: z.uuid(),
  /** The id of the tenant in test mode. */
  tenant_id: z.uuid(),
  tenant_name: z.string(),
}) satisfies z.ZodType<LinkedVerification>
const params = z.strictObject({ id: z.uuid().toLowerCase() })
/** As long as the body of an SMS. */
const replyBody = z.strictObject({ text: z.string().trim().min(1).max(1600) })
const outcomeBody = z.strictObject({ outcome: z.enum(SANDBOX_OUTCOMES) })
/** `id`: the id in the path. */
const actSchema = z.object({ id: z.uuid() })
const ACT_RESPONSES = { 200: actSchema, 202: actSchema }

export function sandboxRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sandbox } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  sandboxReads(root, context)

  /** Records the act and runs it. The answer is 202 if the sandbox has accepted but not finished it. */
  async function act(
    request: FastifyRequest,
    reply: FastifyReply,
    { id, ...of }: { action: string; subject: AuditSubject; id: string },
    run: (tenant_id: string) => Promise<SandboxResult>,
  ): Promise<FastifyReply> {
    const { id: tenant_id } = requireTestTenant(request).tenant
    assertAllowed(requireMember(request).role, 'sandbox.use')
    await recordAct(context, request, reply, tenant_id, { ...of, subject_id: id })
    const { finished } = await run(tenant_id)
    return await reply.code(finished ? 200 : 202).send({ id })
  }

  app.post(
    '/api/sandbox/messages/:id/reply',
    { schema: { params, body: replyBody, response: ACT_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params
      return await act(request, reply, { action: 'sandbox.reply', subject: 'message', id }, (tenant_id) =>
        sandbox.replyToSms(tenant_id, id, request.body.text),
      )
    },
  )
  app.post(
    '/api/sandbox/payments/:id/authenticate',
    { schema: { params, body: outcomeBody, response: ACT_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params
      const of = { action: 'sandbox.authenticate', subject: 'payment', id } as const
      return await act(request, reply, of, (tenant_id) =>
        sandbox.authenticatePayment(tenant_id, id, request.body.outcome),
      )
    },
  )
  app.post(
    '/api/sandbox/payments/:id/dispute',
    { schema: { params, response: ACT_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params
      return await act(request, reply, { action: 'sandbox.dispute', subject: 'payment', id }, (tenant_id) =>
        sandbox.disputePayment(tenant_id, id),
      )
    },
  )
  app.post(
    '/api/sandbox/payouts/:id/fail',
    { schema: { params, response: ACT_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params
      return await act(request, reply, { action: 'sandbox.fail', subject: 'payout', id }, (tenant_id) =>
        sandbox.failPayout(tenant_id, id),
      )
    },
  )
  app.post(
    '/api/sandbox/kyc/:id/complete',
    { schema: { params, body: outcomeBody, response: ACT_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params
      const of = { action: 'sandbox.complete', subject: 'kyc', id } as const
      return await act(request, reply, of, (tenant_id) =>
        sandbox.completeVerification(tenant_id, id, request.body.outcome),
      )
    },
  )
}

/** The inbox, and the verification of a link. */
function sandboxReads(root: FastifyInstance, { sandbox }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/api/sandbox/messages',
    {
      schema: { querystring: inboxQuery, response: { 200: z.array(inboxEntrySchema) } },
      config: { audit_action: 'listInbox' },
    },
    async (request, reply) => {
      const { query, sql, url } = request
      const entries = await sandbox.listInbox(sql, requireTestTenant(request).tenant.id, query)
      reply.headers(nextPage(url, query.limit, entries))
      return entries
    },
  )
  app.get(
    '/api/sandbox/messages/:id',
    {
      schema: { params, response: { 200: inboxMessageSchema } },
      config: { audit_action: 'readInboxMessage' },
    },
    async (request) => {
      const { tenant } = requireTestTenant(request)
      const message = await sandbox.findInboxMessage(request.sql, tenant.id, request.params.id)
      return requireResource(message, 'message_not_found')
    },
  )
  app.get(
    '/api/sandbox/kyc',
    {
      schema: { querystring: linkQuery, response: { 200: linkedVerificationSchema } },
      config: { audit_action: 'findLinkedVerification' },
    },
    async (request) => {
      const user = requireTestTenant(request)
      const linked = await sandbox.findLinkedVerification(request.sql, user, request.query.session)
      return requireResource(linked, 'kyc_not_found')
    },
  )
}
