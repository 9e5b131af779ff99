// Recurring work: one worker at a time takes the turn, under a lease, and stores how far it got.
import type { Json, Sql } from '#core/db.ts'

/** The turn of one worker at some recurring work. `token` is the fencing token of everything the turn writes. */
export type Turn = {
  name: string
  token: string
  /** ISO 8601. */
  started_at: string
  /** How far the last turn got; null at first. */
  position: Json
  /** What the last turn found; null at first. */
  result: Json
}

/**
 * Takes the turn if it is due and nobody has it; undefined otherwise. The first turn is due at once, or
 * `first_after_s` seconds after the first call. The lease lasts `lease_s` seconds; `keepTurn` renews it.
 */
export async function takeTurn(
  sql: Sql,
  name: string,
  { lease_s, first_after_s = 0 }: { lease_s: number; first_after_s?: number },
): Promise<Turn | undefined> {
  const take = () => sql<Turn[]>`
    update recurring_work set lease_token = gen_random_uuid(), lease_until = now() + ${lease_s} * interval '1 second',
      started_at = now()
    where name = ${name} and due_at <= now() and (lease_until is null or lease_until <= now())
    returning name, lease_token as token, started_at, position, result`
  const [turn] = await take()
  if (turn !== undefined) return turn
  const made = await sql`
    insert into recurring_work (name, due_at) values (${name}, now() + ${first_after_s} * interval '1 second')
    on conflict do nothing returning name`
  return made.count > 0 && first_after_s === 0 ? (await take())[0] : undefined
}

/** Saves how far the turn got and renews its lease; false when it is no longer ours. */
export async function keepTurn(sql: Sql, turn: Turn, position: Json, lease_s: number): Promise<boolean> {
  const kept = await sql`
    update recurring_work set position = ${sql.json(position)}, lease_until = now() + ${lease_s} * interval '1 second'
    where name = ${turn.name} and lease_token = ${turn.token} and lease_until > now()`
  return kept.count > 0
}

/** Ends the turn; the next is due in `next_s` seconds. False when it was no longer ours: then nothing was written. */
export async function endTurn(
  sql: Sql,
  turn: Turn,
  { position, result = null, next_s }: { position: Json; result?: Json; next_s: number },
): Promise<boolean> {
  const ended = await sql`
    update recurring_work set lease_token = null, lease_until = null,
      position = ${sql.json(position)}, result = ${sql.json(result)},
      ended_at = now(), due_at = now() + ${next_s} * interval '1 second'
    where name = ${turn.name} and lease_token = ${turn.token} and lease_until > now()`
  return ended.count > 0
}

/** The result of the last turn and how many seconds ago it ended; undefined before the first has ended. */
export async function findLastTurn(
  sql: Sql,
  name: string,
): Promise<{ result: Json; age_s: number } | undefined> {
  const [row] = await sql<{ result: Json; age_s: number }[]>`
    select result, extract(epoch from now() - ended_at)::float8 as age_s from recurring_work
    where name = ${name} and ended_at is not null`
  return row
}
