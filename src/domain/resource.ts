// The definition of a resource: its table, events, ledger transfers, checks, and its objects at the provider.
import type { z } from 'zod'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import type { Scope } from './areas.ts'
import type { Checks } from './audit/checks.ts'
import type { Difference, Side, SideSchema } from './reconciliation/side.ts'

type AnyResource = {
  table: string
  /**
   * The parent resource, and the column with the parent's id. Jobs and notifications of a child have the parent's id
   * as their `resource_id`, events as their `subject_id`.
   */
  parent?: { resource: string; id_column: string }
  /** The columns that an event stores. */
  view: z.ZodObject
  completion?: EventCompletion
  /** The fields that the erasure of a customer removes from events, with the values that answers show instead. */
  erased?: Readonly<Record<string, Json>>
  /** The events of the resource: the name after `<resource>.`, and the description. */
  events: Record<string, string>
  /**
   * The audit's checks of the resource's rows. The checks of a child resource cover the parent's rows and their
   * children. Each check can be limited to a subset of the rows.
   */
  checks?: Checks
  /** Checks for the audit of all rows of a tenant. */
  checks_by_tenant?: Checks
  /** The kinds of ledger transfers that only rows of this resource cause. */
  transfer_kinds?: readonly string[]
  /** The condition on rows `p` whose `amount_minor` is reserved on the tenant's available balance. */
  reserves?: (sql: Sql | Tx) => Fragment
}
/**
 * Fields that events show but do not store, because they are personal or long. Only the resource's row stores them.
 * They are added when an event is read, and null once they are erased from the row.
 */
type EventCompletion = {
  /** The schema of an event's data with these fields. */
  data: z.ZodObject
  /** The names of the fields. */
  fields: readonly string[]
  /** The names of the events with these fields; in other events the fields are null. Default: all events. */
  event_names?: readonly string[]
  /** The columns to read from the row `p`. `omits`: whether a value of more than `max_bytes` is omitted. */
  columns: (sql: Sql, max_bytes: number | null) => Fragment
  /** The fields of an event, from these columns and the event's stored data. Throws SealError. */
  open: (row: CompletionRow, stored: Json, vault: Vault) => Record<string, Json>
}
/** The columns of a row that complete its events. */
export type CompletionRow = { tenant_id: string; id: string; omits: boolean } & Record<string, Json>

/** A resource that also exists at a provider. */
export type ProviderResource = AnyResource & { under_way: UnderWay; at_provider: AtProvider }
export type Resource = ProviderResource | (AnyResource & { under_way?: UnderWay; at_provider?: undefined })

export type UnderWay = {
  /** The condition on rows `p` that may still change. An index has these rows by tenant and creation. */
  open: (sql: Sql | Tx) => Fragment
  /**
   * The condition on rows `p` whose state is looked up at the provider when they do not change, with an index like
   * that of `open`. Default: open rows with a status in progress.
   */
  eligible_for_lookup?: (sql: Sql | Tx) => Fragment
  /** Statuses in which the provider is processing the object, in addition to the statuses during our calls. */
  statuses?: readonly string[]
  /** The condition on rows `p` that need no open job although their call is in progress. Default: no rows. */
  awaits_provider?: (sql: Sql | Tx) => Fragment
}

export type AtProvider = {
  /** The scope that allows reading the rows and their drifts. */
  scope: Scope
  /** The column with the provider's name. The name of the column is also the provider's role. */
  provider: string
  /** The column with the provider's id. */
  reference: string
  /** The compared values: the status, and every column that both sides have. */
  side: SideSchema
  /**
   * For each status at the provider, the statuses of our row that agree with it once all reports of the provider are
   * applied.
   */
  agreeing_statuses: Readonly<Record<string, readonly string[]>>
  /**
   * Statuses at the provider in which no money has moved, or all money was returned. An object in such a status is
   * harmless even if we did not request it.
   */
  reverted_statuses?: readonly string[]
  /**
   * The condition under which the event `reported` adds nothing to our row `r`. It must cover all compared values.
   * Default: every event is processed. The database role of the webhooks host must have the right to read the columns
   * in this condition.
   */
  isRedundant?(sql: Sql | Tx): Fragment
  /** Differences of two sides other than status, amount and currency. Default: each column must be equal. */
  difference?(ours: Side, theirs: Side): Difference | null
  /** An additional text about two sides that differ. */
  inWords?(ours: Side, theirs: Side): string | null
  /** The text about two sides with contradictory statuses. */
  contradiction?(ours: Side, theirs: Side): string | null
  /** The condition under which two sides that agree close the row's drift. Default: always. */
  closesDrift?(sql: Sql | Tx, ours: Side): Fragment
}

/**
 * Whether the provider has accepted the row `p`. The row may still be pending at the provider. A row that was lost was
 * made again from the provider's object.
 */
export function isAcceptedByProvider(sql: Sql | Tx, resource: string, root_id: Fragment): Fragment {
  return sql`(p.recovered_at is not null or exists (
    select from all_jobs j
    where j.tenant_id = p.tenant_id and j.resource_id = ${root_id} and j.state = 'succeeded'
      and ${worksOn(sql, resource, sql`p.id`)}))`
}

/**
 * Whether the row `p` was lost and has just been made again: the notification that made the row settles its status
 * next.
 */
export function wasJustMadeAgain(sql: Sql | Tx): Fragment {
  return sql`((p.recovered_at > now() - interval '1 minute') is true)`
}

/**
 * Whether the job `j` works on this row of a resource. Jobs are named `<resource>.<verb>`; payloads have
 * `<resource>_id`.
 */
export function worksOn(sql: Sql | Tx, resource: string, id: Fragment): Fragment {
  return sql`(split_part(j.name, '.', 1) = ${resource} and j.payload ->> ${`${resource}_id`}::text = ${id}::text)`
}
