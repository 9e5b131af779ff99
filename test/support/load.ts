// Clients that create and capture payments with retries, and the check that nothing is lost or duplicated.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { checkInvariants } from './books.ts'
import type { Answer, Client } from './client.ts'
import { BY_CARD, freshKey } from './client.ts'
import { until } from './process.ts'
import type { Deployment } from './deployment.ts'

/** A created and captured payment. `answers`: the status of each request; 0: the connection broke. */
export type CapturedPayment = { key: string; payment_id: string; amount_minor: number; answers: number[] }

const TIMEOUT_MS = 60_000

/** Creates and captures one payment. Repeats both requests with their keys until the requests succeed. */
export async function pay(client: Client, key = freshKey()): Promise<CapturedPayment> {
  const answers: number[] = []
  const amount_minor = 1000 + Math.floor(Math.random() * 1000)
  const body = { ...BY_CARD, idempotency_key: key, amount_minor }
  const created = await postUntil(201, answers, () => client.post('/v1/payments', body))
  const payment_id = created.body.id as string
  const captured = await postUntil(200, answers, () =>
    client.post(`/v1/payments/${payment_id}/capture`, { idempotency_key: `${key}-capture` }),
  )
  expect(captured.body).toMatchObject({
    id: payment_id,
    status: 'captured',
    amount_captured_minor: amount_minor,
  })
  return { key, payment_id, amount_minor, answers }
}

/** Repeats a request while its response is missing or is a 202 or a 503. A 503 must have `retry-after`. */
async function postUntil(status: number, answers: number[], send: () => Promise<Answer>): Promise<Answer> {
  const deadline = performance.now() + TIMEOUT_MS
  for (;;) {
    const answer = await send().catch(() => null)
    answers.push(answer?.status ?? 0)
    if (answer?.status === status) return answer
    if (answer !== null && answer.status !== 202) {
      expect(answer, answer.text).toMatchObject({ status: 503 })
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    if (performance.now() > deadline)
      throw new Error(`no response with status ${status} in ${TIMEOUT_MS} ms: ${answers.join(' ')}`)
    await sleep(100)
  }
}

export type Load = {
  paid: CapturedPayment[]
  /** Resolves when this many more payments are captured. Rejects if a client has failed. */
  untilPaid(payments: number): Promise<void>
  /** Resolves with all captured payments. */
  stop(): Promise<CapturedPayment[]>
}

/** Runs this many clients until they are stopped. Each client creates one payment after the other. */
export function startLoad(
  client: Client,
  { clients, pause_ms = 0 }: { clients: number; pause_ms?: number },
): Load {
  const paid: CapturedPayment[] = []
  const stopping = new AbortController()
  async function payRepeatedly(): Promise<void> {
    while (!stopping.signal.aborted) {
      paid.push(await pay(client))
      await sleep(pause_ms)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, payRepeatedly))
  // Prevents an unhandled rejection until `untilPaid` or `stop` reports the error.
  all.catch(() => stopping.abort())
  return {
    paid,
    async untilPaid(payments) {
      const before = paid.length
      await until(
        `${payments} more payments`,
        () => stopping.signal.aborted || paid.length >= before + payments,
      )
      if (stopping.signal.aborted) await all
    },
    async stop() {
      stopping.abort()
      await all
      return paid
    },
  }
}

/** Waits until no job is open. Fails with the open jobs. */
async function drained({ sql }: Deployment): Promise<void> {
  const open = async () =>
    await sql`select name, state, attempt, run_at, now(), lease_until, last_error from jobs where finished_at is null`
  await until('no job is open', async () => (await open()).length === 0).catch(async () =>
    expect([...(await open())]).toEqual([]),
  )
}

/**
 * Checks that nothing is lost or duplicated: each payment has one captured row, one authorization and one capture in
 * the processor's record and no other effects, all jobs have succeeded, and the books contain the amount.
 */
export async function expectNothingLost(deployment: Deployment, paid: CapturedPayment[]): Promise<void> {
  const { sql, provider } = deployment
  await drained(deployment)
  const rows = await sql<
    { id: string; key: string; status: string; amount: number; captured: number; reference: string }[]
  >`
    select id, idempotency_key as key, status, amount_minor as amount, amount_captured_minor as captured, processor_reference as reference
    from payments`
  const total = paid.reduce((sum, { amount_minor }) => sum + amount_minor, 0)
  expect(rows.map(({ id, key, status, captured }) => `${key} ${id} ${status} ${captured}`).sort()).toEqual(
    paid.map(({ key, payment_id, amount_minor }) => `${key} ${payment_id} captured ${amount_minor}`).sort(),
  )

  const effects: { effect: string; payment_intent: string; amount: number }[] =
    await provider('stripe').effects()
  const moved = (rows_of: typeof effects) =>
    rows_of.map(({ effect, payment_intent, amount }) => `${effect} ${payment_intent} ${amount}`).sort()
  expect(moved(effects)).toEqual(
    rows
      .flatMap(({ reference, amount }) => [
        `authorize ${reference} ${amount}`,
        `capture ${reference} ${amount}`,
      ])
      .sort(),
  )

  const jobs = await sql<{ name: string; state: string; count: number }[]>`
    select name, state, count(*) as count from jobs where name like 'payment.%' group by name, state order by name`
  const all_succeeded = { state: 'succeeded', count: paid.length }
  expect([...jobs]).toEqual(
    paid.length === 0
      ? []
      : [
          { name: 'payment.authorize', ...all_succeeded },
          { name: 'payment.capture', ...all_succeeded },
        ],
  )
  await checkInvariants(deployment)
  const [available] = await sql<{ minor: number | null }[]>`
    select sum(balance_minor)::bigint as minor from ledger_accounts where name = 'available'`
  expect(available!.minor ?? 0).toBe(total)
}
