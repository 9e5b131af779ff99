// The clock of a tenant in test mode: what the tenant sees of it, and how the tenant moves it.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { timestamp } from '#core/time.ts'

/** How far a clock may be ahead of the real time. */
export const MAX_CLOCK_DAYS_AHEAD = 365

export const testClockSchema = z
  .object({
    now: timestamp.meta({ description: 'The time of the clock.', example: '2027-06-01T10:15:30.123456Z' }),
    advance_to: timestamp.nullable().meta({
      description: 'The time to which the clock moves; null if it does not move.',
      example: null,
    }),
    status: z.enum(['ready', 'advancing']).meta({
      id: 'TestClockStatus',
      description:
        '`advancing`: the clock moves to `advance_to`, from one deadline to the next. At each it waits until what was due has run, but at most 30 seconds, and not for what a pause stops. `ready`: it has arrived.',
      example: 'ready',
    }),
    remaining: z.int().nullable().meta({
      description:
        'The number of deadlines until `advance_to` that are still ahead of the clock, counted up to 10,000. What runs may add deadlines. Null until they are counted.',
      example: 0,
    }),
  })
  .meta({ id: 'TestClock', description: 'The clock of your tenant in test mode.' })
export type TestClock = z.output<typeof testClockSchema>

/** The clock of a tenant. A clock that was never moved has the real time. */
export async function findTestClock(sql: Sql, tenant_id: string): Promise<TestClock> {
  const [clock] = await sql<TestClock[]>`
    select now() + coalesce(c.clock_offset, '0') as now, c.advance_to,
      case when c.advance_to is null then 'ready' else 'advancing' end as status,
      case when c.tenant_id is null then 0 else c.remaining end as remaining
    from (values (${tenant_id}::uuid)) requested (tenant_id)
    left join test_clocks c on c.tenant_id = requested.tenant_id`
  return clock!
}

/**
 * Lets a clock move to this time. A clock that moves already may get a later time, or the same again. Errors:
 * `test_clock_ahead` for an earlier time, `invalid_request` for a time that is too far ahead.
 */
export async function advanceTestClock(sql: Sql, tenant_id: string, advance_to: string): Promise<TestClock> {
  const is_allowed = sql`a.advance_to <= now() + ${MAX_CLOCK_DAYS_AHEAD} * interval '1 day'`
  const [accepted] = await sql`
    insert into test_clocks as c (tenant_id, advance_to)
    select ${tenant_id}, a.advance_to from (values (${advance_to}::timestamptz)) a (advance_to)
    where ${is_allowed} and a.advance_to > now() + clock_offset(${tenant_id})
    on conflict (tenant_id) do update
      set advance_to = excluded.advance_to, moved_at = now(), steps = 0, remaining = null
    where excluded.advance_to > now() + c.clock_offset
      and (c.advance_to is null or excluded.advance_to > c.advance_to)
    returning c.tenant_id`
  const clock = await findTestClock(sql, tenant_id)
  if (accepted !== undefined || isSameTime(clock.advance_to, advance_to)) return clock
  const [refused] = await sql<{ is_allowed: boolean }[]>`
    select ${is_allowed} as is_allowed from (values (${advance_to}::timestamptz)) a (advance_to)`
  if (refused!.is_allowed) throw aheadError(clock)
  const problem = `must be at most ${MAX_CLOCK_DAYS_AHEAD} days ahead of the real time`
  throw new AppError('invalid_request', {
    message: `advance_to ${problem}.`,
    param: 'advance_to',
    details: [{ param: 'advance_to', message: problem }],
  })
}

function isSameTime(one: string | null, other: string): boolean {
  return one !== null && Date.parse(one) === Date.parse(other)
}

function aheadError({ now, advance_to }: TestClock): AppError {
  const position = advance_to === null ? `It is at ${now}.` : `It moves to ${advance_to}.`
  return new AppError('test_clock_ahead', {
    message: `The clock only moves forward. ${position}`,
    context: { now, advance_to },
  })
}
