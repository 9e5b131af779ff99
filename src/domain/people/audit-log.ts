// The audit log: append-only entries, each with the hash of the previous one.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { tenantNameColumn } from '../tenant-names.ts'
import type { AuditSubject } from './audit-target.ts'

/** The person or command that acts, with the request and the network address that the act came from. */
export type Actor = {
  /** The tenant that the act affects; null if none. */
  tenant_id: string | null
  request_id: string | null
  address: string | null
} & (
  | {
      /** A user; the database adds the name. */
      actor_id: string
      actor?: undefined
    }
  | {
      actor_id?: undefined
      /** The name of a user of the machine, for commands. */
      actor: string
    }
)

/** The name of the actor: the email address of a user, or the name of the account that ran a command. */
export function actorName(sql: Sql | Tx, { actor_id, actor }: Actor): Fragment {
  return actor_id === undefined ? sql`${actor}` : sql`(select email from users where id = ${actor_id})`
}

/** `action`: the operation, such as `capturePayment` or `keys.revoke`. `details`: no secrets and no addresses. */
export type AuditAct = {
  action: string
  subject?: AuditSubject
  subject_id?: string
  /** For the outcome of an act: the number of the entry that records the request. */
  answers?: number
  /**
   * Whether the outcome follows, in another entry or as an act of operators. Default: false: the act is complete when
   * its entry is appended.
   */
  expects_outcome?: boolean
  details?: Record<string, Json>
}

/**
 * Appends an entry and returns its number, in the transaction of the act if the act has one. Concurrent appends wait
 * until this transaction commits, so entries are in commit order.
 */
export async function appendAuditEntry(sql: Sql | Tx, by: Actor, act: AuditAct): Promise<number> {
  const [entry] = await sql<{ seq: number }[]>`select ${appending(sql, by, act)} as seq`
  return entry!.seq
}

/** Appends an entry for each selected row, as a part of the statement that performs the act. */
export function appending(sql: Sql | Tx, by: Actor, { expects_outcome = false, ...act }: AuditAct): Fragment {
  // `expects_outcome` is stored in the details, because the hash covers them.
  const details = act.answers === undefined ? { ...act.details, expects_outcome } : act.details
  return sql`append_audit_entry(${sql.json({ ...by, ...act, ...(details && { details }) })}::jsonb)`
}

/**
 * The number and hash of the last entry. If a copy of them is stored elsewhere, it reveals a rewritten log. Null: the
 * row with the number and hash was deleted.
 */
export async function findAuditHead(sql: Sql): Promise<{ seq: number; hash: string } | null> {
  const [head] = await sql<
    { seq: number; hash: string }[]
  >`select seq, encode(hash, 'hex') as hash from audit_head`
  return head ?? null
}

export type AuditEntry = {
  seq: number
  at: string
  tenant: string | null
  actor: string
  action: string
  subject: string | null
  subject_id: string | null
  details: Record<string, Json>
  request_id: string | null
  address: string | null
  /** The outcome of the act; null if the act was complete with its entry, or if the outcome is unknown. */
  outcome: Record<string, Json> | null
  /** Whether another entry records the outcome. */
  expects_outcome: boolean
}

export type AuditFilters = {
  /** The tenant of the entries; null: entries of all tenants and entries without a tenant. */
  tenant_id: string | null
  seq?: number
  /**
   * The action as it is stored or as pages show it, or only its beginning: `capturePayment`, `Capture payment`,
   * `capture`.
   */
  action?: string
  actor?: string
  before?: number
  limit: number
}

/** The maximum number of entries that a page scans, matching or not. */
const MAX_SCANNED = 10_000

/**
 * Acts, latest first, each with its outcome. `scanned_until`: the page has fewer than `limit` entries because
 * the scan limit was reached at this entry.
 */
export async function findAuditEntries(
  sql: Sql,
  filters: AuditFilters,
): Promise<{ entries: AuditEntry[]; scanned_until: { seq: number; at: string } | null }> {
  const { tenant_id, seq, action, actor, before, limit } = filters
  const normalized_action = sql`regexp_replace(lower(e.action), '[^a-z0-9]', '', 'g')`
  const scanned = sql`
    select * from audit_entries
    where ${tenant_id === null ? sql`true` : sql`tenant_id = ${tenant_id}`}
      ${seq === undefined ? sql`` : sql`and seq = ${seq}`} ${before === undefined ? sql`` : sql`and seq < ${before}`}
    order by seq desc limit ${MAX_SCANNED}`
  const entries = await sql<AuditEntry[]>`
    select e.seq, e.at, ${tenantNameColumn(sql)} as tenant, e.actor, e.action, e.subject, e.subject_id,
      e.details - 'expects_outcome' as details,
      coalesce((e.details -> 'expects_outcome')::boolean, false) as expects_outcome,
      e.request_id, e.address, (
        select o.details from audit_entries o
        where o.answers = e.seq and o.tenant_id is not distinct from e.tenant_id order by o.seq limit 1) as outcome
    from (${scanned}) e left join tenants t on t.id = e.tenant_id
    where e.answers is null
      ${action === undefined ? sql`` : sql`and ${normalized_action} ^@ ${normalizeAction(action)}`}
      ${actor === undefined ? sql`` : sql`and e.actor = ${actor}`}
    order by e.seq desc limit ${limit}`
  if (entries.length >= limit) return { entries, scanned_until: null }
  const [last] = await sql<{ seq: number; at: string }[]>`
    select seq, at from (${scanned}) e offset ${MAX_SCANNED - 1}`
  return { entries, scanned_until: last ?? null }
}

function normalizeAction(action: string): string {
  return action.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}
