// An error of the connection is no error of the statement: it uses up no attempt, and callers get 503.
import { expect } from 'vitest'
import { BY_CARD, freshKey } from '#test/client.ts'
import { authorizedPayment } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { testIn } from '#test/world.ts'

const test = testIn({})

const CODES = ['26000', '42P05', '08P01', '57P01', '57P02', '57P03', '25006', '08006', '53300']

test('an error of the connection uses up no attempt of a job, and an error of the statement does', async ({
  world,
}) => {
  const { client, sql } = world
  await sql.unsafe(`
    create table refusals (code text);
    create function refuse() returns trigger language plpgsql security definer as $$
    declare refusal text := (select code from refusals);
    begin
      if refusal is not null then raise exception 'refused' using errcode = refusal; end if;
      return new;
    end $$;
    grant execute on function refuse() to public;
    create trigger refuse before update on payments for each row when (new.status = 'captured') execute function refuse();
    create trigger refuse_new before insert on payments for each row execute function refuse()`)
  const payment = await authorizedPayment(client, { idempotency_key: freshKey(), amount_minor: 1200 })
  const attempts = async () => {
    const [job] = await sql<{ attempt: number; max_attempts: number }[]>`
      select attempt, max_attempts from jobs where resource_id = ${payment.id} and name = 'payment.capture'`
    return job
  }
  await sql`insert into refusals values (${CODES[0]!})`
  const accepted = await client.post(
    `/v1/payments/${payment.id}/capture`,
    { idempotency_key: freshKey() },
    { prefer: 'respond-async' },
  )
  expect(accepted.status).toBe(202)
  const before = await until('the first attempt has ended', async () => {
    const job = await attempts()
    return job !== undefined && job.attempt >= 2 && job
  })
  const left = before.max_attempts - before.attempt
  for (const code of CODES) {
    await sql`update refusals set code = ${code}`
    const { attempt: first } = (await attempts())!
    const body = { ...BY_CARD, idempotency_key: freshKey(), amount_minor: 1000 }
    const created = await client.post('/v1/payments', body)
    expect([code, created.status, created.body]).toMatchObject([
      code,
      503,
      { error: { code: 'database_unavailable' } },
    ])
    const job = await until(`three attempts have ended with ${code}`, async () => {
      const found = (await attempts())!
      return found.attempt >= first + 3 && found
    })
    // The attempt that is under way is not settled yet.
    expect(job.max_attempts - job.attempt).toBeGreaterThanOrEqual(left - 1)
  }
  // The attempts at a statement that always takes too long, or finds the disk full, must end.
  for (const code of ['57014', '53100']) {
    const { attempt, max_attempts } = (await attempts())!
    await sql`update refusals set code = ${code}`
    await until(`attempts that end with ${code} are counted`, async () => {
      const found = (await attempts())!
      return found.max_attempts - found.attempt < max_attempts - attempt - 1
    })
  }
  await sql`delete from refusals`
  await world.drain()
  expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({ status: 'captured' })
})
