// Proposals: one operator proposes, another decides, and workers execute.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireResource } from '#api/refusals.ts'
import { decideProposal, propose, type Operator } from '#domain/proposals/decide.ts'
import {
  findProposal,
  listProposals,
  proposalSchema,
  proposalState,
  proposedSchema,
} from '#domain/proposals/proposal.ts'
import { actorOf, requireOperator, type DashboardContext } from '../../context.ts'
import { AUDIT_HEADER } from '../../on-record.ts'

const params = z.strictObject({ id: z.uuid().toLowerCase() })
const listQuery = z.strictObject({
  state: proposalState.optional(),
  before: z.uuid().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
})
const DECISIONS = { confirm: 'confirmed', reject: 'rejected' } as const

export function proposalRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/ops/proposals',
    { schema: { querystring: listQuery, response: { 200: z.array(proposalSchema) } } },
    async (request) => listProposals(request.sql, request.query),
  )

  app.get(
    '/api/ops/proposals/:id',
    { schema: { params, response: { 200: proposalSchema } } },
    async (request) => requireResource(await findProposal(request.sql, request.params.id), 'not_found'),
  )

  app.post(
    '/api/ops/proposals',
    { schema: { body: proposedSchema, response: { 201: proposalSchema } } },
    async (request, reply) => {
      const { id, seq } = await propose(sql, request.body, operatorOf(request))
      reply.header(AUDIT_HEADER, seq)
      return await reply.code(201).send(requireResource(await findProposal(sql, id), 'not_found'))
    },
  )

  for (const [verb, decision] of Object.entries(DECISIONS))
    app.post(
      `/api/ops/proposals/:id/${verb}`,
      { schema: { params, response: { 200: proposalSchema } } },
      async (request, reply) => {
        const { id } = request.params
        reply.header(AUDIT_HEADER, await decideProposal(sql, id, decision, operatorOf(request)))
        return requireResource(await findProposal(sql, id), 'not_found')
      },
    )
}

function operatorOf(request: FastifyRequest): Operator {
  const { user_id, email } = requireOperator(request)
  return { user_id, email, by: (tenant_id) => actorOf(request, tenant_id) }
}
