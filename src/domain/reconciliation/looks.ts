// Looks: what stands still for longer than it should, and when the processor is asked about it.
import type { Fragment, Sql } from '#core/db.ts'
import { derivedId } from '#core/ids.ts'
import type { Notification } from '../notifications.ts'

/** The `kind` of the notifications that we write ourselves, to have an object looked at as if the processor had told of it. */
export const LOOK_KIND = 'reconciliation.look'

/** After so long the processor is asked again; then every day. */
const LOOKS_S = [5, 60, 5 * 60, 30 * 60, 2 * 3600, 24 * 3600]
const DAY_S = 24 * 3600
/** Rows that are looked through in one go: most of the open payments are held, and as they should be. */
const ROWS_AT_ONCE = 10_000

type Stale = {
  object: 'payment_intent' | 'refund'
  reference: string | null
  /** Since when it stands like this, and for how long. */
  since: string
  age_s: number
}

/** Where a walk through the rows of all tenants got to; null at the beginning. */
export type Walk = { tenant_id: string; created_at: string } | null

/** What was found on a part of the way, and where to go on; null when this was the end of it. */
export type Stage = { stale: Stale[]; walk: Walk }

/** Payments under way on which no job works: what is open is walked through. */
export async function findStalePayments(sql: Sql, walk: Walk): Promise<Stage> {
  const stage = await findStage(sql, sql`payments p where p.open`, walk)
  const stale = await sql<Stale[]>`
    select 'payment_intent' as object, coalesce(p.processor_reference, (
        select c.provider_reference from all_jobs j cross join lateral (
          select c.provider_reference from all_provider_calls c where c.tenant_id = j.tenant_id and c.job_id = j.id offset 0) c
        where j.tenant_id = p.tenant_id and j.subject_id = p.id and c.provider_reference is not null limit 1)) as reference,
      p.updated_at as since, extract(epoch from now() - p.updated_at)::float8 as age_s
    from payments p
    where p.open and ${stage.within} and p.status in ('pending', 'capturing', 'canceling')
      and p.updated_at <= now() - ${LOOKS_S[0]!} * interval '1 second'
      and not exists (select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id and j.finished_at is null)`
  return { stale, walk: stage.walk }
}

/** Refunds that are pending and on which no job works: the processor has them and takes its time, or its news was lost. */
export async function findStaleRefunds(sql: Sql, walk: Walk): Promise<Stage> {
  const stage = await findStage(sql, sql`refunds p where p.status = 'pending'`, walk)
  const stale = await sql<Stale[]>`
    select 'refund' as object, p.processor_reference as reference, p.updated_at as since,
      extract(epoch from now() - p.updated_at)::float8 as age_s
    from refunds p
    where p.status = 'pending' and ${stage.within} and p.processor_reference is not null
      and p.updated_at <= now() - ${LOOKS_S[0]!} * interval '1 second'
      and not exists (select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.payment_id and j.finished_at is null)`
  return { stale, walk: stage.walk }
}

/** What is known to differ, and since when it stands as it does: whatever moved it may have mended it. */
export async function findDrifting(sql: Sql, walk: Walk): Promise<Stage> {
  const stage = await findStage(sql, sql`drifts p where p.mended_at is null`, walk)
  const stale = await sql<Stale[]>`
    select case when p.subject = 'refund' then 'refund' else 'payment_intent' end as object, s.reference, s.since,
      extract(epoch from now() - s.since)::float8 as age_s
    from drifts p cross join lateral (
      select o.processor_reference as reference, greatest(p.since, o.updated_at) as since from payments o
      where p.subject = 'payment' and o.tenant_id = p.tenant_id and o.id = p.subject_id
      union all
      select o.processor_reference, greatest(p.since, o.updated_at) from refunds o
      where p.subject = 'refund' and o.tenant_id = p.tenant_id and o.id = p.subject_id
    ) s
    where p.mended_at is null and ${stage.within} and p.state <> 'unknown'`
  return { stale, walk: stage.walk }
}

/** The next rows of a table that has an index of just these, by tenant and creation. `rows` names them `p`. */
export async function findStage(
  sql: Sql,
  rows: Fragment,
  walk: Walk,
): Promise<{ within: Fragment; walk: Walk }> {
  const { tenant_id, created_at } = walk ?? {
    tenant_id: '00000000-0000-0000-0000-000000000000',
    created_at: '-infinity',
  }
  const after = sql`(p.tenant_id, p.created_at) > (${tenant_id}, ${created_at})`
  const [last] = await sql<NonNullable<Walk>[]>`
    select p.tenant_id, p.created_at from ${rows} and ${after}
    order by p.tenant_id, p.created_at offset ${ROWS_AT_ONCE - 1} limit 1`
  if (last === undefined) return { within: after, walk: null }
  const { tenant_id: last_tenant_id, created_at: last_created_at } = last
  return {
    within: sql`${after} and (p.tenant_id, p.created_at) <= (${last_tenant_id}, ${last_created_at})`,
    walk: last,
  }
}

/** The look that is due at something of this age, each with an id of its own: asking for it twice is asking once. */
export function looksOf(processor: string, stale: Stale[]): Notification[] {
  return stale.flatMap(({ object, reference, since, age_s }) => {
    if (reference === null || age_s < LOOKS_S[0]!) return []
    const look = LOOKS_S.filter((after_s) => after_s <= age_s).length + Math.floor(age_s / DAY_S)
    return [lookAt(processor, { object, reference }, `${since}:${look}`)]
  })
}

/** A look at an object of the processor, to be stored as its news are. `name` tells it from other looks at the same object. */
export function lookAt(
  processor: string,
  { object, reference }: { object: Stale['object']; reference: string },
  name: string,
): Notification {
  const event_id = `look:${reference}:${name}`
  return {
    id: derivedId(processor, '', event_id),
    provider: processor,
    account: '',
    event_id,
    kind: LOOK_KIND,
    object_id: reference,
    payload: { id: event_id, type: LOOK_KIND, data: { object: { object, id: reference } } },
  }
}
