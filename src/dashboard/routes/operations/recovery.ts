// Switches of the database: what was noticed, what waits, and what operators decide.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireResource } from '#api/refusals.ts'
import { AppError } from '#core/errors.ts'
import { reasonText } from '#domain/jobs/reason.ts'
import { findLostRequests } from '#domain/lost-requests/report.ts'
import { lostRequestSchema } from '#domain/lost-requests/resource.ts'
import { findRecoveredRows, recoveredRowsSchema } from '#domain/recovered/find.ts'
import {
  findHeldJobs,
  findSwitch,
  findSwitches,
  findSwitchState,
  heldJobsSchema,
  listedSwitchSchema,
  switchStateSchema,
} from '#domain/switches/find.ts'
import { protectionsOff } from '#domain/switches/protections.ts'
import { acknowledgeSwitch, releaseSwitches } from '#domain/switches/release.ts'
import { actorOf, type DashboardContext } from '../../context.ts'
import { AUDIT_HEADER } from '../../on-record.ts'

/** The maximum number of switches in a banner. */
const MAX_UNACKNOWLEDGED = 10
const LOST_REQUESTS_SHOWN = 10

const number = z.coerce.number().int().positive().max(Number.MAX_SAFE_INTEGER)
const listQuery = z.strictObject({
  before: number.optional(),
  limit: z.coerce.number().int().min(1).max(100).default(25),
})
const recoverySchema = switchStateSchema.extend({
  unacknowledged: z.array(listedSwitchSchema).meta({
    description: `The switches that no operator has acknowledged, newest first; at most ${MAX_UNACKNOWLEDGED}.`,
  }),
  protections_off: z.array(z.string()),
})
/**
 * `up_to`: the last switch that the operator has seen. One that is noticed meanwhile is not released. `messages` is
 * null only if nothing but `without_lists` is decided.
 */
const releaseBody = z
  .strictObject({
    up_to: z.int().positive(),
    messages: z.enum(['send', 'discard']).nullable(),
    without_lists: z.boolean().default(false),
    reason: reasonText,
  })
  .refine(({ messages, without_lists }) => messages !== null || without_lists, { path: ['messages'] })
const lostRequestsSchema = z.object({
  count: z.int(),
  latest: z.array(lostRequestSchema.extend({ tenant: z.string() })),
})
const releasedSchema = z.object({ released: z.array(z.int()), waived: z.array(z.int()) })

export function recoveryRoutes(root: FastifyInstance, { config, database, sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/ops/recovery', { schema: { response: { 200: recoverySchema } } }, async (request) => ({
    ...(await findSwitchState(request.sql)),
    unacknowledged: await findSwitches(request.sql, { unacknowledged: true, limit: MAX_UNACKNOWLEDGED }),
    protections_off: protectionsOff(config, database.witnessProblems()),
  }))

  app.get(
    '/api/ops/recovery/held',
    { schema: { response: { 200: z.array(heldJobsSchema) } } },
    async (request) => findHeldJobs(request.sql),
  )

  app.get(
    '/api/ops/recovery/recovered',
    { schema: { response: { 200: recoveredRowsSchema } } },
    async (request) => findRecoveredRows(request.sql),
  )

  app.get(
    '/api/ops/recovery/lost-requests',
    { schema: { response: { 200: lostRequestsSchema } } },
    async (request) => findLostRequests(request.sql, LOST_REQUESTS_SHOWN),
  )

  app.get(
    '/api/ops/switches',
    { schema: { querystring: listQuery, response: { 200: z.array(listedSwitchSchema) } } },
    async (request) => findSwitches(request.sql, request.query),
  )

  app.post(
    '/api/ops/switches/:number/acknowledge',
    { schema: { params: z.strictObject({ number }) } },
    async (request, reply) => {
      const seq = await acknowledgeSwitch(sql, request.params.number, actorOf(request, null))
      if (seq === undefined) {
        requireResource(await findSwitch(sql, request.params.number), 'not_found')
        throw new AppError('conflict', { message: 'The switch is already acknowledged.' })
      }
      return await reply.code(204).header(AUDIT_HEADER, seq).send()
    },
  )

  app.post(
    '/api/ops/switches/release',
    { schema: { body: releaseBody, response: { 200: releasedSchema } } },
    async (request, reply) => {
      const { audit_seq, ...released } = await releaseSwitches(sql, request.body, actorOf(request, null))
      if (audit_seq === undefined) throw new AppError('conflict', { message: 'No switch is to be released.' })
      return await reply.header(AUDIT_HEADER, audit_seq).send(released)
    },
  )
}
