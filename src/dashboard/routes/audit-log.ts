// Settings, Audit, and the audit of the installation: who did what.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { linkBefore } from '#api/route.ts'
import type { Json, Sql } from '#core/db.ts'
import { findActOutcomes } from '#domain/operator-acts/act.ts'
import { findAuditEntries, type AuditEntry, type AuditFilters } from '#domain/people/audit-log.ts'
import { inTenant } from '../context.ts'

/** Until when entries were looked at, where a page is not full because it had looked at enough: the next one goes on there. */
const LOOKED_HEADER = 'x-looked-until'

const facts = z.record(z.string(), z.custom<Json>())
const entrySchema = z.object({
  seq: z.int(),
  at: z.string(),
  tenant: z.string().nullable(),
  actor: z.string(),
  action: z.string(),
  subject: z.string().nullable(),
  subject_id: z.string().nullable(),
  details: facts,
  request_id: z.string().nullable(),
  address: z.string().nullable(),
  outcome: facts.nullable(),
  /** What comes of it is on record apart: without an `outcome` nobody knows. Null: the entry is too old to say it. */
  expects_outcome: z.boolean().nullable(),
})
type ShownEntry = z.output<typeof entrySchema>
const querystring = z.strictObject({
  before: z.coerce.number().int().positive().optional(),
  seq: z.coerce.number().int().positive().optional(),
  action: z.string().max(255).optional(),
  actor: z.string().max(320).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
})
const schema = { querystring, response: { 200: z.array(entrySchema) } }

export function auditLogRoutes(root: FastifyInstance): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get('/api/audit', { schema, config: { look: 'listAuditEntries' } }, async (request, reply) =>
    page(reply, { ...request.query, tenant_id: inTenant(request).tenant.id }),
  )
}

/** Of all tenants, for operators. */
export function wholeAuditRoutes(root: FastifyInstance): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get('/api/ops/audit', { schema }, async (request, reply) =>
    page(reply, { ...request.query, tenant_id: null }),
  )
}

async function page(reply: FastifyReply, filters: AuditFilters): Promise<ShownEntry[]> {
  const { sql, url } = reply.request
  const { entries, looked_until } = await findAuditEntries(sql, filters)
  const last = entries.length >= filters.limit ? entries.at(-1) : looked_until
  if (last != null) reply.header('link', linkBefore(url, String(last.seq)))
  if (looked_until !== null) reply.header(LOOKED_HEADER, looked_until.at)
  return await withActs(sql, entries)
}

/** An act of operators ends after its entry: how it stands now is its outcome. */
async function withActs(sql: Sql, entries: AuditEntry[]): Promise<ShownEntry[]> {
  const ids = entries.flatMap(({ details: { act_id } }) => (typeof act_id === 'string' ? [act_id] : []))
  const acts = await findActOutcomes(sql, ids)
  return entries.map((entry) => {
    const { act_id } = entry.details
    const act = typeof act_id === 'string' ? acts.get(act_id) : undefined
    return { ...entry, outcome: entry.outcome ?? act ?? null }
  })
}
