// Looks: what stands still for longer than it should, and when the processor is asked about it.
import { z } from 'zod'
import type { Fragment, Sql } from '#core/db.ts'
import { notificationOf, type Notification } from '../notifications.ts'
import { filedBy, PROVIDER_NOUNS, SUBJECTS, worksOn, type ProviderNoun } from '../subjects.ts'

/** The `kind` of the notifications that we write ourselves, to have an object looked at as if the processor had told of it. */
export const LOOK_KIND = 'reconciliation.look'

/** After so long the processor is asked again; then every day. */
const LOOKS_S = [5, 60, 5 * 60, 30 * 60, 2 * 3600, 24 * 3600]
const DAY_S = 24 * 3600
/** Rows that are looked through in one go: most of the open payments are held, and as they should be. */
const ROWS_AT_ONCE = 10_000

type Stale = {
  subject: ProviderNoun
  reference: string | null
  /** Since when it stands like this, and for how long. */
  since: string
  age_s: number
}

/** Where a walk through the rows of all tenants got to; null at the beginning. */
export type Cursor = { tenant_id: string; created_at: string } | null

/** What was found on a part of the way, and where to go on; null when this was the end of it. */
export type Stage = { stale: Stale[]; cursor: Cursor }

/**
 * Rows of a noun under way on which no job works: the processor has them and takes its time, or its news was lost. What is
 * open is walked through.
 */
export async function findStale(sql: Sql, noun: ProviderNoun, cursor: Cursor): Promise<Stage> {
  const { table } = SUBJECTS[noun]
  const { open, under_way, reference } = SUBJECTS[noun].at_provider
  const stage = await findStage(sql, sql`${sql(table)} p where ${open(sql)}`, cursor)
  const filed = sql`j.tenant_id = p.tenant_id and j.subject_id = ${sql(`p.${filedBy(noun)}`)}`
  const stale = await sql<Stale[]>`
    select ${noun} as subject, coalesce(${sql(`p.${reference}`)}, (
        select c.provider_reference from all_jobs j cross join lateral (
          select c.provider_reference from all_provider_calls c where c.tenant_id = j.tenant_id and c.job_id = j.id offset 0) c
        where ${filed} and ${worksOn(sql, noun, sql`p.id`)} and c.provider_reference is not null limit 1)) as reference,
      p.updated_at as since, extract(epoch from now() - p.updated_at)::float8 as age_s
    from ${sql(table)} p
    where ${open(sql)} and ${stage.within} and p.status = any(${[...under_way]}::text[])
      and p.updated_at <= now() - ${LOOKS_S[0]!} * interval '1 second'
      and not exists (select from jobs j where ${filed} and j.finished_at is null)`
  return { stale, cursor: stage.cursor }
}

/** What is known to differ, and since when it stands as it does: whatever moved it may have mended it. */
export async function findDrifting(sql: Sql, cursor: Cursor): Promise<Stage> {
  const stage = await findStage(sql, sql`drifts p where p.mended_at is null`, cursor)
  const rows = PROVIDER_NOUNS.map((noun) => {
    const { table, at_provider } = SUBJECTS[noun]
    return sql`
      select ${sql(`o.${at_provider.reference}`)} as reference, greatest(p.since, o.updated_at) as since from ${sql(table)} o
      where p.subject = ${noun} and o.tenant_id = p.tenant_id and o.id = p.subject_id`
  }).reduce((all, each) => sql`${all} union all ${each}`)
  const stale = await sql<Stale[]>`
    select p.subject, s.reference, s.since, extract(epoch from now() - s.since)::float8 as age_s
    from drifts p cross join lateral (${rows}) s
    where p.mended_at is null and ${stage.within} and p.state <> 'unknown'`
  return { stale, cursor: stage.cursor }
}

/** The next rows of a table that has an index of just these, by tenant and creation. `rows` names them `p`. */
export async function findStage(
  sql: Sql,
  rows: Fragment,
  cursor: Cursor,
): Promise<{ within: Fragment; cursor: Cursor }> {
  const { tenant_id, created_at } = cursor ?? {
    tenant_id: '00000000-0000-0000-0000-000000000000',
    created_at: '-infinity',
  }
  const after = sql`(p.tenant_id, p.created_at) > (${tenant_id}, ${created_at})`
  const [last] = await sql<NonNullable<Cursor>[]>`
    select p.tenant_id, p.created_at from ${rows} and ${after}
    order by p.tenant_id, p.created_at offset ${ROWS_AT_ONCE - 1} limit 1`
  if (last === undefined) return { within: after, cursor: null }
  const { tenant_id: last_tenant_id, created_at: last_created_at } = last
  return {
    within: sql`${after} and (p.tenant_id, p.created_at) <= (${last_tenant_id}, ${last_created_at})`,
    cursor: last,
  }
}

/** The look that is due at something of this age, each with an id of its own: asking for it twice is asking once. */
export function looksOf(processor: string, stale: Stale[]): Notification[] {
  return stale.flatMap(({ subject, reference, since, age_s }) => {
    if (reference === null || age_s < LOOKS_S[0]!) return []
    const look = LOOKS_S.filter((after_s) => after_s <= age_s).length + Math.floor(age_s / DAY_S)
    return [lookAt(processor, { subject, reference }, `${since}:${look}`)]
  })
}

const lookSchema = z.object({ subject: z.string(), reference: z.string() })

/** A look at something of the processor, to be stored as its news are. `name` tells it from other looks at the same. */
export function lookAt(
  processor: string,
  look: { subject: ProviderNoun; reference: string },
  name: string,
): Notification {
  return notificationOf(processor, {
    account: '',
    event_id: `look:${look.reference}:${name}`,
    kind: LOOK_KIND,
    object_id: look.reference,
    payload: look,
  })
}

/** What a look looks at. Its noun may be one that only another version knows. */
export function lookOf({ payload }: Pick<Notification, 'payload'>): z.output<typeof lookSchema> {
  return lookSchema.parse(payload)
}
