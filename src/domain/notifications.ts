// Notifications from providers: stored once, applied once, and parked while they cannot be applied.
import { unionAll, type Fragment, type Json, type Sql, type Tx } from '#core/db.ts'
import { derivedId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { applyNotification } from '#jobs/notifications.ts'
import { enqueue } from '#jobs/job.ts'
import { finishing, holding, type Settlement } from './jobs/settle.ts'
import { PROVIDER_NOUNS, subjectOf, type Noun, type SubjectKey } from './subjects.ts'

/** Why a notification is parked, or was ignored in the end. */
const PARKED_REASONS = [
  /** Its object carries our mark but is not known here yet. */
  'not_known_here',
  /** Its object carries no mark of ours: it belongs to another application. */
  'not_ours',
  /** The processor does not know its object. */
  'not_at_processor',
  /** A refund for which what is captured and not reserved here leaves no room yet. */
  'does_not_fit',
  /** The processor has refunded more or less than we know of; another notification may be on its way. */
  'refunds_differ',
  /** The processor could not be asked: it is away, or refuses our requests. */
  'no_answer',
  /** Its worker was killed, or its handler threw, again and again. */
  'poison',
] as const
export type ParkedReason = (typeof PARKED_REASONS)[number]

export type Notification = {
  id: string
  provider: string
  account: string
  event_id: string
  kind: string
  /** The provider's id of the object that it is about. */
  object_id: string | null
  payload: Json
}

/**
 * A provider's event as a notification. The same event always has the same id, whether it was sent or read from the
 * provider's list.
 */
export function notificationOf(provider: string, news: Omit<Notification, 'id' | 'provider'>): Notification {
  const { account, event_id } = news
  return { ...news, provider, id: derivedId(provider, account, event_id) }
}

/**
 * Stores notifications and asks for the jobs that apply them. The id of a notification is derived from the provider's
 * and is also the id of its job, so a repeated notification writes nothing, whether it is repeated in this call, in
 * the table or in the history. Returns the ids that are new.
 */
export async function storeNotifications(
  sql: Sql | Tx,
  notifications: (Notification & { rung: boolean; request_id: string | null })[],
): Promise<Set<string>> {
  const to_apply = sql`
    select stored.id as job_id, ${SYSTEM_TENANT_ID}::uuid as tenant_id, null::uuid as subject_id,
      jsonb_build_object('notification_id', stored.id) as payload, given.rung,
      given.provider || ':' || given.account || ':' || given.event_id as dedupe_key, given.request_id
    from stored join given on given.id = stored.id`
  const rows = await sql<{ id: string }[]>`
    with given as (
      select distinct on (provider, account, event_id) * from jsonb_to_recordset(${sql.json(notifications)}) as n(
        id uuid, provider text, account text, event_id text, kind text, object_id text, payload jsonb, rung boolean,
        request_id text)
      order by provider, account, event_id, rung
    ), stored as (
      insert into notifications (id, provider, account, event_id, kind, object_id, payload)
      select id, provider, account, event_id, kind, object_id, payload from given
      -- Both tables are asked: a row that is being moved is in one of them in this statement's snapshot.
      left join lateral (
        select true as found from notification_history h
        where h.id = given.id and h.finished_at > now() - interval '31 days' offset 0
      ) before on true
      left join lateral (select true as found from notifications n where n.id = given.id offset 0) here on true
      where before.found is null and here.found is null
      on conflict do nothing
      returning id
    ),
    job as (${enqueue(sql, applyNotification, to_apply)})
    select id from stored`
  return new Set(rows.map((row) => row.id))
}

/** A stored notification with its state. */
export type StoredNotification = Notification & {
  state: 'received' | 'applied' | 'parked' | 'ignored'
  /** Why it is parked, and for how long with this reason; null when it is not parked. */
  reason: ParkedReason | null
  parked_ms: number | null
}

/** One notification, or undefined. */
export async function findNotification(sql: Sql, id: string): Promise<StoredNotification | undefined> {
  const [row] = await sql<StoredNotification[]>`
    select id, provider, account, event_id, kind, object_id, payload, state, reason,
      extract(epoch from now() - parked_at)::float8 * 1000 as parked_ms
    from notifications where id = ${id}`
  return row
}

/** When what a notification waits for changed during its attempt, it is tried again this soon. */
const CROSSED_MS = 1_000

/** The settlement of a notification that changes no payment or refund now. */
export type NotificationSettlement = Settlement & {
  notification_id: string
  becomes: 'applied' | 'ignored' | 'parked'
  reason: ParkedReason | null
  /** While it is parked: the provider's id of the object that wakes it; null when only time does. */
  waits_for: string | null
  /** The row that it is filed under, when that is known. */
  of: SubjectKey | null
}

/**
 * Settles the jobs of notifications that change no payment or refund now: the notification is over, or parked with
 * its job open. An object that changes during the attempt cannot wake its notification, because a running job is not
 * woken: then the job is soon tried again.
 */
export async function settleNotifications(
  sql: Sql,
  settlements: NotificationSettlement[],
): Promise<Set<string>> {
  const items = settlements.map(({ notification_id, becomes, reason, waits_for, of, ...settlement }) => ({
    ...settlement,
    change: { notification_id, becomes, reason, waits_for, ...of },
  }))
  const filed_under = PROVIDER_NOUNS.map(
    (noun) => sql`
      select r.updated_at from ${sql(subjectOf(noun).table)} r
      where change.subject = ${noun} and r.tenant_id = change.tenant_id and r.id = change.subject_id`,
  )
  const delay_ms = sql`
    case when held.job_id in (select job_id from crossed) then ${CROSSED_MS} else held.delay_ms end`
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    change as (
      select c.* from held cross join lateral jsonb_to_record(held.change) as c(
        notification_id uuid, becomes text, reason text, waits_for text, tenant_id uuid, subject text, subject_id uuid)
    ), crossed as (
      select held.job_id from held
      join change
        on change.notification_id = held.job_id and change.becomes = 'parked' and change.waits_for is not null
      join lateral (${unionAll(sql, filed_under)}) r on r.updated_at > held.started_at
    ), notification as (
      update notifications n set state = change.becomes, reason = change.reason, waits_for = change.waits_for,
        parked_at = case
          when change.becomes = 'parked' and n.reason = change.reason then n.parked_at
          when change.becomes = 'parked' then now() end,
        applied_at = case when change.becomes <> 'parked' then clock_timestamp() end,
        tenant_id = coalesce(change.tenant_id, n.tenant_id), subject = coalesce(change.subject, n.subject),
        subject_id = coalesce(change.subject_id, n.subject_id)
      from change where n.id = change.notification_id
    ),
    ${finishing(sql, delay_ms)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * A part of the statement that settles `told` (`notification_id, tenant_id` and `<noun>_id`): marks the notification
 * that brought this as applied, and files it under the noun.
 */
export function filing(sql: Sql | Tx, noun: Noun): Fragment {
  return sql`
    notification as (
      update notifications n set state = 'applied', applied_at = clock_timestamp(), reason = null, waits_for = null,
        parked_at = null, tenant_id = told.tenant_id, subject = ${noun}, subject_id = ${sql(`told.${noun}_id`)}
      from told where n.id = told.notification_id
    )`
}

/**
 * A part of a statement that creates or changes an object: makes parked notifications that wait for it due. `known`
 * selects `provider, reference` of the objects. It waits for no lock: a job that is locked is being performed anyway,
 * and a notification that is parked at this moment soon looks again by itself.
 */
export function waking(sql: Sql | Tx, known: Fragment): Fragment {
  return sql`
    woken as (
      select j.id from (${known}) known
      cross join lateral (
        select n.id from notifications n
        where n.provider = known.provider and n.waits_for = known.reference and n.state = 'parked'
        -- The offset keeps this a look-up: a join, planned while nothing was parked, would later read every parked row.
        offset 0
      ) n
      cross join lateral (
        select j.id from jobs j where j.id = n.id and j.state = 'ready' and j.run_at > now() for update skip locked
      ) j
    ), awake as (
      update jobs j set run_at = now(), rung_at = null from woken where j.id = woken.id
    )`
}

/** How many notifications are parked for each reason, counted up to `most`. */
export async function countParked(
  sql: Sql,
  most: number,
): Promise<{ reason: ParkedReason; count: number }[]> {
  return await sql<{ reason: ParkedReason; count: number }[]>`
    select asked.reason, parked.count from unnest(${[...PARKED_REASONS]}::text[]) as asked(reason)
    cross join lateral (
      select count(*) from (
        select from notifications n where n.parked_at is not null and n.reason = asked.reason limit ${most}) n
    ) parked`
}
