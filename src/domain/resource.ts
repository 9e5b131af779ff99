// What the entry of a noun in the subjects says.
import type { z } from 'zod'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import type { Scope } from './areas.ts'
import type { Checks } from './audit/checks.ts'
import type { Difference, Side, SideSchema } from './reconciliation/side.ts'

type AnyResource = {
  table: string
  /**
   * The noun that it is a part of, and the column with that noun's id: its jobs, events and notifications are filed
   * under that row.
   */
  parent?: { resource: string; id_column: string }
  /** The columns that an event stores, and no others. */
  view: z.ZodObject
  completion?: EventCompletion
  /** Of the view, what the erasure of a customer takes out of events, and what is shown in its place. */
  erased?: Readonly<Record<string, Json>>
  /** Its events: the word after `<resource>.`, and the meaning. */
  events: Record<string, string>
  /**
   * Checks for the audit, of the noun's rows or, of a part, of what it is a part of and what belongs to that; they also
   * work for some of these rows.
   */
  checks?: Checks
  /** Checks for the audit of all rows of a tenant, however they changed. */
  checks_by_tenant?: Checks
  /** The kinds of the ledger's transfers that are of its rows, and of no others. */
  transfer_kinds?: readonly string[]
  /** The condition for rows `p` whose `amount_minor` is reserved on what is available to their tenant. */
  reserves?: (sql: Sql | Tx) => Fragment
}
/**
 * What events show and do not store, because it is personal or long: their row has the only copy. It is added whenever an
 * event is read, and null once the row no longer has it.
 */
type EventCompletion = {
  /** The data of events with what is added. */
  data: z.ZodObject
  /** The fields that are added. */
  fields: readonly string[]
  /** The words of the events that need the row; in others the fields are null. Default: all need it. */
  event_names?: readonly string[]
  /** The columns to read from the row `p`; `omits`: whether a value of more than `max_bytes` was left out. */
  columns: (sql: Sql, max_bytes: number | null) => Fragment
  /** The fields of an event, from these columns and from what it stored. Throws SealError. */
  open: (row: CompletionRow, stored: Json, vault: Vault) => Record<string, Json>
}
/** What is read from a row to complete its events. */
export type CompletionRow = { tenant_id: string; id: string; omits: boolean } & Record<string, Json>

/** A noun that a provider keeps records of too. */
export type ProviderResource = AnyResource & { under_way: UnderWay; at_provider: AtProvider }
export type Resource = ProviderResource | (AnyResource & { under_way?: UnderWay; at_provider?: undefined })

export type UnderWay = {
  /** The condition for rows `p` that may still change; there is an index of these by tenant and creation. */
  open: (sql: Sql | Tx) => Fragment
  /**
   * The condition for rows `p` at which the provider is asked to look when they stand still, with an index as that of
   * `open`; unless told those that are open and under way.
   */
  eligible_for_lookup?: (sql: Sql | Tx) => Fragment
  /** Statuses in which the provider works on it, beside those of our calls. */
  statuses?: readonly string[]
  /** The condition for rows `p` that need no open job although their call is under way; unless told none. */
  awaits_provider?: (sql: Sql | Tx) => Fragment
}

export type AtProvider = {
  /** The scope with which its rows are read, and so their drifts. */
  scope: Scope
  /** The column with the provider's name; what the column is called is also what the provider is to us. */
  provider: string
  /** The column with the provider's id. */
  reference: string
  /** What is compared: the status, and every column that both sides have. */
  side: SideSchema
  /**
   * For each status at the provider the statuses of ours that agree with it, once everything the provider said has
   * been applied.
   */
  agreeing_statuses: Readonly<Record<string, readonly string[]>>
  /** Statuses at the provider in which money that is not what we asked for has come to nothing, or has gone back. */
  reverted_statuses?: readonly string[]
  /**
   * The condition under which what an event `reported` brings nothing new to our row `r`; it says all that is compared.
   * Without it each event is looked at. The webhooks host reads the columns that it names.
   */
  isRedundant?(sql: Sql | Tx): Fragment
  /** How two sides differ beside status, amount and currency, where that is not for each column to be equal. */
  difference?(ours: Side, theirs: Side): Difference | null
  /** What else is to be said of two sides of which one does not fit. */
  inWords?(ours: Side, theirs: Side): string | null
  /** What is said of two sides whose statuses do not agree. */
  contradiction?(ours: Side, theirs: Side): string | null
  /** The condition under which two sides that agree close the row's drift; unless told always. */
  closesDrift?(sql: Sql | Tx, ours: Side): Fragment
}

/** Whether the provider has taken the row `p`: also after its call has succeeded it may be pending there. */
export function isAcceptedByProvider(sql: Sql | Tx, resource: string, root_id: Fragment): Fragment {
  return sql`exists (
    select from all_jobs j
    where j.tenant_id = p.tenant_id and j.subject_id = ${root_id} and j.state = 'succeeded'
      and ${worksOn(sql, resource, sql`p.id`)})`
}

/** Whether the job `j` works on this row of a noun. A job is named `<resource>.<verb>`, and its payload has `<resource>_id`. */
export function worksOn(sql: Sql | Tx, resource: string, id: Fragment): Fragment {
  return sql`(split_part(j.name, '.', 1) = ${resource} and j.payload ->> ${`${resource}_id`}::text = ${id}::text)`
}
