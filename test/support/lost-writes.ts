// Loses writes as if they took too long: a worker would write again after a lost connection.
import { expect, onTestFinished } from 'vitest'
import type { Sql } from '#core/db.ts'

/**
 * Makes the first write to `table` of a row that fulfils `when` fail, as if it took too long. `when` is a condition on
 * `new`. Returns a check that one write was lost.
 */
export async function loseFirstWrite(
  sql: Sql,
  write: 'insert' | 'update',
  table: string,
  when: string,
): Promise<() => Promise<void>> {
  await sql.unsafe(`
    create sequence lost_once;
    grant usage on sequence lost_once to public;
    create function lose_once() returns trigger language plpgsql as $$
    begin
      if ${when} then
        if nextval('lost_once') = 1 then
          raise exception 'canceling statement due to statement timeout' using errcode = '57014';
        end if;
      end if;
      return new;
    end $$;
    create trigger lose_once before ${write} on ${table} for each row execute function lose_once();`)
  onTestFinished(async () => {
    await sql.unsafe(`drop function lose_once cascade; drop sequence lost_once`)
  })
  return async () => {
    expect(Array.from(await sql`select is_called from lost_once`)).toEqual([{ is_called: true }])
  }
}
