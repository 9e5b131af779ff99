// The audit log of a tenant (Settings, Audit) and of the installation.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { linkBefore } from '#api/route.ts'
import type { Json, Sql } from '#core/db.ts'
import { findActOutcomes } from '#domain/operator-acts/act.ts'
import { findAuditEntries, type AuditEntry, type AuditFilters } from '#domain/people/audit-log.ts'
import { requireTenant } from '../context.ts'

/** Time of the last scanned entry, if a scan stopped before the page was full. The next page continues there. */
const SCANNED_UNTIL_HEADER = 'x-scanned-until'

const jsonObject = z.record(z.string(), z.custom<Json>())
const entrySchema = z.object({
  seq: z.int(),
  at: z.string(),
  tenant: z.string().nullable(),
  actor: z.string(),
  action: z.string(),
  subject: z.string().nullable(),
  subject_id: z.string().nullable(),
  details: jsonObject,
  request_id: z.string().nullable(),
  address: z.string().nullable(),
  outcome: jsonObject.nullable(),
  /** Whether another entry records the outcome. If true and `outcome` is null, the outcome is unknown. */
  expects_outcome: z.boolean(),
})
type EntryView = z.output<typeof entrySchema>
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
  app.get('/api/audit', { schema, config: { audit_action: 'listAuditEntries' } }, async (request, reply) =>
    sendEntries(reply, { ...request.query, tenant_id: requireTenant(request).tenant.id }),
  )
}

/** The audit log of all tenants, for operators. */
export function installationAuditRoutes(root: FastifyInstance): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get('/api/ops/audit', { schema }, async (request, reply) =>
    sendEntries(reply, { ...request.query, tenant_id: null }),
  )
}

async function sendEntries(reply: FastifyReply, filters: AuditFilters): Promise<EntryView[]> {
  const { sql, url } = reply.request
  const { entries, scanned_until } = await findAuditEntries(sql, filters)
  const cursor = entries.length >= filters.limit ? entries.at(-1) : scanned_until
  if (cursor != null) reply.header('link', linkBefore(url, String(cursor.seq)))
  if (scanned_until !== null) reply.header(SCANNED_UNTIL_HEADER, scanned_until.at)
  return await withActOutcomes(sql, entries)
}

/** Adds the current state of operator acts as their outcome, because an act finishes after its entry is written. */
async function withActOutcomes(sql: Sql, entries: AuditEntry[]): Promise<EntryView[]> {
  const ids = entries.flatMap(({ details: { act_id } }) => (typeof act_id === 'string' ? [act_id] : []))
  const acts = await findActOutcomes(sql, ids)
  return entries.map((entry) => {
    const { act_id } = entry.details
    const act = typeof act_id === 'string' ? acts.get(act_id) : undefined
    return { ...entry, outcome: entry.outcome ?? act ?? null }
  })
}
