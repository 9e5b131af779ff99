// An act on record: an entry before it happens, and one with what came of it, whatever that is.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import { appendAuditEntry, type Actor, type AuditAct } from '#domain/people/audit-log.ts'
import { actorOf } from './context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What is on record of this request, until its outcome is too. */
    open_audit_entry?: { seq: number; by: Actor; action: string } | undefined
  }
}

/** Where the audit entry of an act is named in its answer. */
export const AUDIT_HEADER = 'x-audit-entry'

/** Puts on record what a request asks for. Its outcome follows when the answer is ready, by `recordOutcome`. */
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

/** For each answer that is ready, refusals and failures too. */
export async function recordOutcome(
  { sql, log }: Pick<ApiContext, 'sql' | 'log'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { open_audit_entry, subject_id } = request
  if (open_audit_entry === undefined) return
  request.open_audit_entry = undefined
  const { seq: answers, by, action } = open_audit_entry
  const details = { status: reply.statusCode, ...(subject_id !== undefined && { id: subject_id }) }
  // What was asked for is on record; that its outcome is not keeps nobody from their answer.
  await appendAuditEntry(sql, by, { action, answers, details }).catch((err: unknown) =>
    log.warn({ err, audit_entry: answers }, 'the outcome of an act was not recorded'),
  )
}
