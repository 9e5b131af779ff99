// Records acts in the audit log: an entry before the act, and another with its outcome.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import { appendAuditEntry, type Actor, type AuditAct } from '#domain/people/audit-log.ts'
import { actorOf } from './context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The audit entry of this request, until its outcome is recorded. */
    open_audit_entry?: { seq: number; by: Actor; action: string } | undefined
  }
}

/** Response header with the number of the act's audit entry. */
export const AUDIT_HEADER = 'x-audit-entry'

/** Records an act before it runs. `recordOutcome` records its outcome. */
export async function recordAct(
  { sql }: Pick<ApiContext, 'sql'>,
  request: FastifyRequest,
  reply: FastifyReply,
  tenant_id: string | null,
  act: AuditAct,
): Promise<void> {
  const by = actorOf(request, tenant_id)
  const seq = await appendAuditEntry(sql, by, { ...act, expects_outcome: true })
  request.open_audit_entry = { seq, by, action: act.action }
  reply.header(AUDIT_HEADER, seq)
}

/** Records the outcome of the request's act, even if it was refused or failed. Does nothing without an act. */
export async function recordOutcome(
  { sql, log }: Pick<ApiContext, 'sql' | 'log'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { open_audit_entry, resource_id } = request
  if (open_audit_entry === undefined) return
  request.open_audit_entry = undefined
  const { seq: answers, by, action } = open_audit_entry
  const details = { status: reply.statusCode, ...(resource_id !== undefined && { id: resource_id }) }
  // The entry of the act itself is stored, so the response succeeds even if the outcome cannot be recorded.
  await appendAuditEntry(sql, by, { action, answers, details }).catch((err: unknown) =>
    log.warn({ err, audit_entry: answers }, 'the outcome of an act could not be recorded'),
  )
}
