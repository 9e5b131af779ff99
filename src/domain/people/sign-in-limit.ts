// Limits wrong passwords, by account and by address.
import type { Sql } from '#core/db.ts'

const MAX_PER_ACCOUNT = 10
const MAX_PER_ADDRESS = 50
const WINDOW_S = 300

/** `account`: the hash of the entered email address. `address`: the network of the client. */
export type SignInAttempt = { account: string; address: string }

/**
 * Counts an attempt as failed before the password is checked, so that concurrent attempts cannot bypass the limit.
 * Returns null if the attempt is allowed. Otherwise nothing is counted, and the result is the seconds until the next
 * attempt is allowed.
 */
export async function countSignInFailure(
  sql: Sql,
  { account, address }: SignInAttempt,
): Promise<number | null> {
  const [judged] = await sql<{ retry_after_s: number | null }[]>`
    with limits (scope, key, max_count) as (
      values ('account', ${account}::text, ${MAX_PER_ACCOUNT}::integer),
        ('address', ${address}::text, ${MAX_PER_ADDRESS}::integer)
    ), exceeded as (
      select ceil(extract(epoch from f.window_start + ${WINDOW_S} * interval '1 second' - now()))::integer as left_s
      from limits w join sign_in_failures f on f.scope = w.scope and f.key = w.key
      where f.count >= w.max_count and f.window_start > now() - ${WINDOW_S} * interval '1 second'
    ), counted as (
      insert into sign_in_failures as f (scope, key, count)
      select scope, key, 1 from limits where not exists (select from exceeded) order by scope
      on conflict (scope, key) do update set
        count = case when f.window_start > now() - ${WINDOW_S} * interval '1 second' then f.count else 0 end + 1,
        window_start = case when f.window_start > now() - ${WINDOW_S} * interval '1 second' then f.window_start
          else now() end
      returning f.scope, f.count, f.window_start
    )
    select greatest(max(left_s), 1) as retry_after_s from (
      select left_s from exceeded
      union all
      -- Refused as well if concurrent attempts have reached the limit meanwhile.
      select ceil(extract(epoch from c.window_start + ${WINDOW_S} * interval '1 second' - now()))::integer
      from counted c join limits w on w.scope = c.scope where c.count > w.max_count
    ) refused having count(*) > 0`
  return judged?.retry_after_s ?? null
}

/** Undoes the count of an attempt whose password was correct, and deletes the counted failures of the account. */
export async function undoSignInFailure(sql: Sql, { account, address }: SignInAttempt): Promise<void> {
  await sql`
    with account_reset as (delete from sign_in_failures where scope = 'account' and key = ${account})
    update sign_in_failures set count = greatest(count - 1, 0) where scope = 'address' and key = ${address}`
}

/** Deletes counts of past windows. */
export async function deleteOldSignInFailures(sql: Sql): Promise<void> {
  await sql`delete from sign_in_failures where window_start <= now() - ${WINDOW_S} * interval '1 second'`
}
