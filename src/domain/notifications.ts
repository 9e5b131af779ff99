// Notifications from providers: stored once, applied once, parked while they name what we do not know.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { derivedId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { applyNotification } from '#jobs/notifications.ts'
import { enqueue } from '#jobs/job.ts'
import { finishing, holding, type Settlement } from './jobs/settle.ts'
import { PROVIDER_NOUNS, subjectOf, type Noun, type SubjectKey } from './subjects.ts'

/** Why a notification is parked, or was ignored in the end. */
const PARKED_REASONS = [
  /** It names what carries our mark and is not known here, yet. */
  'not_known_here',
  /** It names what carries no mark of ours: another application's. */
  'not_ours',
  /** The processor itself does not know what it names. */
  'not_at_processor',
  /** A refund that does not fit beside what is captured and reserved here yet. */
  'does_not_fit',
  /** The processor has refunded more or less than we know of: the news of it may be on its way. */
  'refunds_differ',
  /** The processor could not be asked: it is away, or refuses to answer us. */
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
  /** The provider's name of what it is about. */
  object_id: string | null
  payload: Json
}

/** News of a provider as it is stored: what is told twice, sent by the provider or read from its list, has one id. */
export function notificationOf(provider: string, news: Omit<Notification, 'id' | 'provider'>): Notification {
  const { account, event_id } = news
  return { ...news, provider, id: derivedId(provider, account, event_id) }
}

/**
 * Stores notifications and asks for their application. `id` is derived from what the provider calls it and serves as the
 * job's id too, so a repetition writes nothing, within one call either; nor does one of what is history by now, as long as
 * a provider may repeat itself. Answers the ids that are new.
 */
export async function storeNotifications(
  sql: Sql | Tx,
  notifications: (Notification & { rung: boolean; request_id: string | null })[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with told as (
      select distinct on (provider, account, event_id) * from jsonb_to_recordset(${sql.json(notifications)}) as n(
        id uuid, provider text, account text, event_id text, kind text, object_id text, payload jsonb, rung boolean,
        request_id text)
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
        jsonb_build_object('notification_id', stored.id) as payload, told.rung, told.provider || ':' || told.account || ':' || told.event_id as dedupe_key,
        told.request_id
      from stored join told on told.id = stored.id`,
    )}
    )
    select id from stored`
  return new Set(rows.map((row) => row.id))
}

/** A notification with how it stands. */
export type StoredNotification = Notification & {
  state: 'received' | 'applied' | 'parked' | 'ignored'
  /** Why it is parked, and for how long for this reason; null while it is not. */
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

/** What a notification waits for has moved while it was looked at: so soon it looks again. */
const CROSSED_MS = 1_000

/** What becomes of a notification that moves nothing now. */
export type NotificationSettlement = Settlement & {
  notification_id: string
  becomes: 'applied' | 'ignored' | 'parked'
  reason: ParkedReason | null
  /** While it is parked: what wakes it, by the provider's name; null where only time does. */
  waits_for: string | null
  /** What it is filed under, where that is known. */
  of: SubjectKey | null
}

/**
 * Settles the jobs of notifications that move nothing now: over, or parked with their jobs open. What moves while it is looked
 * at wakes nobody, because a job that runs is passed over: then the look is soon repeated.
 */
export async function settleNotifications(
  sql: Sql,
  settlements: NotificationSettlement[],
): Promise<Set<string>> {
  const items = settlements.map(({ notification_id, becomes, reason, waits_for, of, ...settlement }) => ({
    ...settlement,
    change: { notification_id, becomes, reason, waits_for, ...of },
  }))
  const moved = PROVIDER_NOUNS.map(
    (noun) => sql`
      select r.updated_at from ${sql(subjectOf(noun).table)} r
      where told.subject = ${noun} and r.tenant_id = told.tenant_id and r.id = told.subject_id`,
  ).reduce((all, each) => sql`${all} union all ${each}`)
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)}, told as (
      select c.* from held cross join lateral jsonb_to_record(held.change) as c(
        notification_id uuid, becomes text, reason text, waits_for text, tenant_id uuid, subject text, subject_id uuid)
    ), crossed as (
      select held.job_id from held
      join told on told.notification_id = held.job_id and told.becomes = 'parked' and told.waits_for is not null
      join lateral (${moved}) moved on moved.updated_at > held.started_at
    ), notification as (
      update notifications n set state = told.becomes, reason = told.reason, waits_for = told.waits_for,
        parked_at = case when told.becomes = 'parked' then case when n.reason = told.reason then n.parked_at else now() end end,
        applied_at = case when told.becomes <> 'parked' then clock_timestamp() end,
        tenant_id = coalesce(told.tenant_id, n.tenant_id), subject = coalesce(told.subject, n.subject),
        subject_id = coalesce(told.subject_id, n.subject_id)
      from told where n.id = told.notification_id
    ), ${finishing(sql, sql`case when held.job_id in (select job_id from crossed) then ${CROSSED_MS} else held.delay_ms end`)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * A part of the step that settles `told` (`notification_id, tenant_id` and `<noun>_id`): the notification that brought the news
 * is applied together with the news, and filed under the noun.
 */
export function filing(sql: Sql | Tx, noun: Noun): Fragment {
  return sql`
    notification as (
      update notifications n set state = 'applied', applied_at = clock_timestamp(), reason = null, waits_for = null, parked_at = null,
        tenant_id = told.tenant_id, subject = ${noun}, subject_id = ${sql(`told.${noun}_id`)}
      from told where n.id = told.notification_id
    )`
}

/**
 * A part of the step that makes something known or moves it: parked notifications that wait for it become due. `moved`
 * selects `provider, reference`. Nothing waits for a lock here: a job that is taken is being looked at anyway, and what is parked
 * at this moment looks again by itself soon.
 */
export function waking(sql: Sql | Tx, moved: Fragment): Fragment {
  return sql`
    woken as (
      select j.id from (${moved}) moved
      cross join lateral (
        select n.id from notifications n
        where n.provider = moved.provider and n.waits_for = moved.reference and n.state = 'parked'
        -- Keeps it a look-up: planned while nothing was parked, a join would go through all that is parked for ever.
        offset 0
      ) n
      cross join lateral (
        select j.id from jobs j where j.id = n.id and j.state = 'ready' and j.run_at > now() for update skip locked
      ) j
    ), awake as (
      update jobs j set run_at = now(), rung_at = null from woken where j.id = woken.id
    )`
}

/** How many notifications are parked, by reason; of each at most `most` are counted. */
export async function countParked(
  sql: Sql,
  most: number,
): Promise<{ reason: ParkedReason; count: number }[]> {
  return await sql<{ reason: ParkedReason; count: number }[]>`
    select asked.reason, parked.count from unnest(${[...PARKED_REASONS]}::text[]) as asked(reason)
    cross join lateral (
      select count(*) from (select from notifications n where n.parked_at is not null and n.reason = asked.reason limit ${most}) n
    ) parked`
}
