// Notifications from providers: stored once, applied once, parked while they name what we do not know.
import { z } from 'zod'
import type { Json, Sql } from '#core/db.ts'
import { derivedId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { applyNotification } from '#jobs/webhooks.ts'
import { enqueue } from '#jobs/job.ts'
import { finishing, holding, type Settlement } from './jobs.ts'

export type Notification = {
  id: string
  provider: string
  account: string
  event_id: string
  kind: string
  /** The provider's name of what it is about, e.g. `pi_...`. */
  object_id: string | null
  payload: Json
}

/** What we need of an event; the rest is kept as it came. */
const eventSchema = z.looseObject({
  id: z.string().min(1).max(255),
  type: z.string().min(1).max(255),
  account: z.string().max(255).optional(),
  data: z.looseObject({
    object: z.looseObject({ id: z.string().max(255).optional(), object: z.string().optional() }),
  }),
})

const MAX_LEVELS = 100
/** What an event tells and nobody here needs: tokens, and addresses that carry one. The provider can be asked for them. */
const SECRETS = new Set(['client_secret', 'payment_method', 'next_action'])

/**
 * An event of a provider, sent by it or read from its list: the same one has the same id. What is kept of it holds no secrets.
 * Undefined when it is none, or nested as no event is.
 */
export function notificationOf(provider: string, value: unknown): Notification | undefined {
  if (!fits(value, MAX_LEVELS)) return undefined
  const event = eventSchema.safeParse(storable(value))
  if (!event.success) return undefined
  const { id, type, account = '', data } = event.data
  return {
    id: derivedId(provider, account, id),
    provider,
    account,
    event_id: id,
    kind: type,
    object_id: data.object.id ?? null,
    payload: event.data as Json,
  }
}

function fits(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((each) => fits(each, levels - 1))
}

// A character that Postgres cannot store must not become a retry for ever.
function storable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(storable)
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      storable(name),
      SECRETS.has(name) && each !== null ? '[redacted]' : storable(each),
    ]),
  )
}

/**
 * Stores notifications and asks for their application. `id` is derived from what the provider calls it and serves as the
 * job's id too, so a repetition writes nothing, within one call either; nor does one of what is history by now, as long as
 * a provider may repeat itself. Answers the ids that are new.
 */
export async function storeNotifications(
  sql: Sql,
  notifications: (Notification & { rung: boolean })[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with told as (
      select distinct on (provider, account, event_id) * from jsonb_to_recordset(${sql.json(notifications)}) as n(
        id uuid, provider text, account text, event_id text, kind text, object_id text, payload jsonb, rung boolean)
      order by provider, account, event_id, rung
    ), stored as (
      insert into notifications (id, provider, account, event_id, kind, object_id, payload)
      select id, provider, account, event_id, kind, object_id, payload from told
      -- Both are asked: what is moved meanwhile is in one of the two as this statement sees them.
      left join lateral (
        select true as found from notification_history h
        where h.id = told.id and h.finished_at > now() - interval '31 days' offset 0
      ) before on true
      left join lateral (select true as found from notifications n where n.id = told.id offset 0) here on true
      where before.found is null and here.found is null
      on conflict do nothing
      returning id
    ), job as (${enqueue(
      sql,
      applyNotification,
      sql`
      select stored.id as job_id, ${SYSTEM_TENANT_ID}::uuid as tenant_id, null::uuid as subject_id,
        jsonb_build_object('notification_id', stored.id) as payload, told.rung, told.provider || ':' || told.account || ':' || told.event_id as dedupe_key
      from stored join told on told.id = stored.id`,
    )}
    )
    select id from stored`
  return new Set(rows.map((row) => row.id))
}

/** One notification with its state, or undefined. */
export async function findNotification(
  sql: Sql,
  id: string,
): Promise<(Notification & { state: string }) | undefined> {
  const [row] = await sql<(Notification & { state: string })[]>`
    select id, provider, account, event_id, kind, object_id, payload, state from notifications where id = ${id}`
  return row
}

/** Settles the job of a notification that moved nothing: `ignored`, or `parked` until what it names appears. */
export async function settleNotifications(
  sql: Sql,
  settlements: (Settlement & { notification_id: string; becomes: 'applied' | 'ignored' | 'parked' })[],
): Promise<Set<string>> {
  const items = settlements.map(({ notification_id, becomes, ...settlement }) => ({
    ...settlement,
    change: { notification_id, becomes },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)}, noted as (
      update notifications n set state = held.change ->> 'becomes', applied_at = clock_timestamp()
      from held where n.id = (held.change ->> 'notification_id')::uuid
    ), ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Why a job is parked whose object the processor itself does not know: nothing that appears here can change that. */
export const NOT_AT_PROCESSOR = 'not_at_processor'

/**
 * Takes up parked notifications whose object is known by now: their jobs become due. Answers how many.
 */
export async function unparkNotifications(sql: Sql): Promise<number> {
  const rows = await sql`
    with known as (
      select n.id from notifications n join jobs j on j.id = n.id
      where n.state = 'parked' and j.state = 'ready' and j.last_error ->> 'code' is distinct from ${NOT_AT_PROCESSOR} and (
        exists (select from payments p where p.processor = n.provider and p.processor_reference = n.object_id)
        or exists (select from refunds r where r.processor = n.provider and r.processor_reference = n.object_id)
        or exists (select from payments p where p.processor = n.provider and p.processor_reference = n.payload #>> '{data,object,payment_intent}'))
      order by n.id limit 100
      for update of n skip locked
    ), received as (
      update notifications n set state = 'received' from known where n.id = known.id returning n.id
    )
    update jobs j set run_at = now(), rung_at = null from received where j.id = received.id and j.state = 'ready' returning j.id`
  return rows.count
}

/** How many notifications are parked. */
export async function countParked(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*) from notifications where state = 'parked'`
  return row!.count
}
