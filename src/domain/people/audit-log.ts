// The record of what people did: entries are only ever appended, each with the hash of the one before.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { AuditSubject } from './audit-target.ts'

/** Who acts, from where, and in whose name. */
export type Actor = {
  /** Whose pages they act on; null for what is about no tenant. */
  tenant_id: string | null
  request_id: string | null
  address: string | null
} & (
  | {
      /** A user, whom the database names. */
      actor_id: string
      actor?: undefined
    }
  | {
      actor_id?: undefined
      /** The name of a user of the machine. */
      actor: string
    }
)

/** `action`: the operation, such as `capturePayment` or `keys.revoke`. `details`: nothing secret, and no addresses. */
export type AuditAct = {
  action: string
  subject?: AuditSubject
  subject_id?: string
  /** Of what came of an act: the entry that says that it was asked for. */
  answers?: number
  /** What comes of it is to follow, in an entry or as an act of operators. Unless told it is done with the entry. */
  expects_outcome?: boolean
  details?: Record<string, Json>
}

/**
 * Appends an entry and returns its number, in the transaction of the act itself where there is one. Whoever appends
 * next waits until that is committed, so it comes last.
 */
export async function appendAuditEntry(sql: Sql | Tx, by: Actor, act: AuditAct): Promise<number> {
  const [entry] = await sql<{ seq: number }[]>`select ${appending(sql, by, act)} as seq`
  return entry!.seq
}

/** The same as a part of the statement that acts, for each row that it selects. */
export function appending(sql: Sql | Tx, by: Actor, { expects_outcome = false, ...act }: AuditAct): Fragment {
  // Among the details, which the hash covers.
  const details = act.answers === undefined ? { ...act.details, expects_outcome } : act.details
  return sql`append_audit_entry(${sql.json({ ...by, ...act, ...(details && { details }) })}::jsonb)`
}

/** The last entry: kept elsewhere it shows whether the record was written anew. Null: the head itself is gone. */
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
  /** What came of it; null where it was done with the entry, or nothing is known. */
  outcome: Record<string, Json> | null
  /** Whether an outcome follows; null for old entries, which do not say it. */
  expects_outcome: boolean | null
}

export type AuditFilters = {
  /** Null: of all tenants, and what is about none. */
  tenant_id: string | null
  seq?: number
  /** As it is kept or as pages say it, also only its beginning: `capturePayment`, `Capture payment`, `capture`. */
  action?: string
  actor?: string
  before?: number
  limit: number
}

/** A page reads so many entries at most, whether they match or not. */
const MAX_SCANNED = 10_000

/**
 * Acts, latest first, each with what came of it. `scanned_until`: there are fewer than `limit` because it had looked at
 * enough, and what is before this entry has not been looked at.
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
    select e.seq, e.at, t.slug as tenant, e.actor, e.action, e.subject, e.subject_id,
      e.details - 'expects_outcome' as details, (e.details -> 'expects_outcome')::boolean as expects_outcome,
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
