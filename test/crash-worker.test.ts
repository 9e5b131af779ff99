// Workers that are killed or frozen at the worst moments: the job goes on, and the money moves once.
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freshKey } from '#test/client.ts'
import { expectWhole, pay, type Paid } from '#test/load.ts'
import { createDeployment, until, type Deployment, type Process } from '#test/processes.ts'

const inTurn = { concurrent: false, timeout: 60_000 }

// The two backends side by side: these stories mostly wait for leases to lapse.
describe.concurrent.each(['redis', 'postgres'] as const)('with bells on %s', (queue) => {
  let deployment: Deployment
  const paid: Paid[] = []

  beforeAll(async () => {
    deployment = await createDeployment({ queue })
    await deployment.startApi()
  })
  afterAll(async () => await deployment.close())

  /** A payment that waits to be captured. */
  async function authorized(): Promise<{ id: string; key: string; amount_minor: number; reference: string }> {
    const key = freshKey()
    const answer = await deployment.client.post('/v1/payments', {
      idempotency_key: key,
      amount_minor: 1200,
      currency: 'USD',
      method: 'card',
      payment_method: 'pm_card_visa',
    })
    expect(answer.status, answer.text).toBe(201)
    const [row] = await deployment.sql<{ reference: string }[]>`
      select processor_reference as reference from payments where id = ${answer.body.id}`
    return { id: answer.body.id, key, amount_minor: 1200, reference: row!.reference }
  }

  const requestCapture = ({ id, key }: { id: string; key: string }, headers = { prefer: 'wait=30' }) =>
    deployment.client.post(`/v1/payments/${id}/capture`, { idempotency_key: `${key}-capture` }, headers)

  /** The emulator keeps captures of this payment waiting, before or after the effect. */
  async function holdCaptures({ reference }: { reference: string }, when: 'before' | 'after', times = 1) {
    const match = { method: 'POST', path: `^/v1/payment_intents/${reference}/capture$` }
    const { id } = await deployment.stripe('POST', '/_emulator/faults', {
      match,
      times,
      fault: { hold: when },
    })
    return {
      reached: async (hits = 1) =>
        expect(await deployment.stripe('GET', `/_emulator/wait?fault=${id}&hits=${hits}`)).toEqual({ hits }),
      release: () => deployment.stripe('POST', '/_emulator/release', { fault: id }),
    }
  }

  const jobOf = async ({ id }: { id: string }) =>
    (
      await deployment.sql<{ id: string; state: string; attempt: number }[]>`
        select id, state, attempt from jobs where subject_id = ${id} and name = 'payment.capture'`
    )[0]

  /** Of the attempts at the capture, whose they were and what came of them. */
  const attemptsAt = async ({ id }: { id: string }) =>
    await deployment.sql<{ worker: string; outcome: string | null }[]>`
      select a.worker, a.outcome from job_attempts a join jobs j on j.id = a.job_id
      where j.subject_id = ${id} and j.name = 'payment.capture' order by a.attempt`

  const captured = async (payment: { id: string }) =>
    (await deployment.client.get(`/v1/payments/${payment.id}`)).body.status === 'captured'

  /** Notes a payment as paid, for the books. */
  async function expectPaidOnce({ id, key, amount_minor }: Awaited<ReturnType<typeof authorized>>) {
    paid.push({ key, payment_id: id, amount_minor, answers: [] })
    await expectWhole(deployment, paid)
  }

  test('a worker killed before its call reaches the processor: another makes it', inTurn, async () => {
    const worker = await deployment.startWorker()
    const payment = await authorized()
    await worker.end()
    // Takes what it is sent and passes nothing on.
    const nowhere = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
    onTestFinished(() => void nowhere.close())
    await once(nowhere, 'listening')
    const called = once(nowhere, 'connection')
    const doomed = await deployment.startWorker({
      STRIPE_API_BASE: `http://127.0.0.1:${(nowhere.address() as AddressInfo).port}`,
    })
    const answer = requestCapture(payment)
    await called
    await doomed.end()
    expect(await jobOf(payment)).toMatchObject({ state: 'running', attempt: 1 })
    const heir = await deployment.startWorker()
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    await expectPaidOnce(payment)
    await heir.end()
  })

  test('a worker killed while its call is on its way: the heir asks under the same key', inTurn, async () => {
    const worker = await deployment.startWorker()
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'before')
    const answer = requestCapture(payment)
    await hold.reached()
    await worker.end()
    const heir = await deployment.startWorker()
    // While the first call is under way at the processor, the second is told so and comes again.
    await until('the heir has tried', async () => (await jobOf(payment))!.attempt >= 2)
    await hold.release()
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    await expectPaidOnce(payment)
    await heir.end()
  })

  test('a worker killed after the effect and before its commit: a colleague finishes', inTurn, async () => {
    const workers = [await deployment.startWorker(), await deployment.startWorker()]
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'after')
    const answer = requestCapture(payment)
    await hold.reached()
    const [attempt] = await attemptsAt(payment)
    const holder = workers.find(({ pid }) => attempt!.worker.endsWith(`/${pid}`))!
    await holder.end()
    await hold.release()
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    const attempts = await attemptsAt(payment)
    expect(attempts.map(({ outcome }) => outcome)).toEqual([null, 'done'])
    await expectPaidOnce(payment)
    await Promise.all(workers.map((worker) => worker.end()))
  })

  test('a worker killed right after its commit: who waits is answered all the same', inTurn, async () => {
    const worker = await deployment.startWorker()
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'after')
    const answer = requestCapture(payment)
    await hold.reached()
    // A frozen Redis hears neither of the outcome nor that the bell is done.
    deployment.redis?.signal('SIGSTOP')
    await hold.release()
    await until('it is captured', async () => (await jobOf(payment))!.state === 'succeeded')
    await worker.end()
    deployment.redis?.signal('SIGCONT')
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    const heir = await deployment.startWorker()
    paid.push(await pay(deployment.client))
    await expectPaidOnce(payment)
    expect((await attemptsAt(payment)).map(({ outcome }) => outcome)).toEqual(['done'])
    await heir.end()
  })

  test(
    'ten workers killed over one job, each after the effect: it is finished, and the effect is one',
    inTurn,
    async () => {
      const first = await deployment.startWorker()
      const payment = await authorized()
      const hold = await holdCaptures(payment, 'after', 10)
      const accepted = await requestCapture(payment, { prefer: 'respond-async' })
      expect(accepted.status).toBe(202)
      let worker: Process = first
      for (let kills = 1; kills <= 10; kills++) {
        await hold.reached(kills)
        const killed = worker.end()
        worker = await deployment.startWorker()
        await killed
        await hold.release()
      }
      await until('it is captured', () => captured(payment))
      expect(await requestCapture(payment)).toMatchObject({ status: 200, body: { status: 'captured' } })
      expect((await attemptsAt(payment)).map(({ outcome }) => outcome)).toEqual([
        ...Array<null>(10).fill(null),
        'done',
      ])
      await expectPaidOnce(payment)
      await worker.end()
    },
    120_000,
  )

  test('a worker frozen past its lease wakes up too late: its write changes nothing', inTurn, async () => {
    const frozen = await deployment.startWorker()
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'after')
    const answer = requestCapture(payment)
    await hold.reached()
    frozen.signal('SIGSTOP')
    await hold.release()
    const colleague = await deployment.startWorker()
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    const everything = async () => [
      await deployment.sql`select * from payments where id = ${payment.id}`,
      await deployment.sql`select * from jobs where subject_id = ${payment.id} order by id`,
      await deployment.sql`select id, type from events where subject_id = ${payment.id} order by id`,
      await attemptsAt(payment),
    ]
    const before = await everything()
    frozen.signal('SIGCONT')
    await frozen.says('a late write was fenced')
    expect(await everything()).toEqual(before)
    await expectPaidOnce(payment)
    await Promise.all([frozen.end(), colleague.end()])
  })

  test('a worker frozen past its lease with nobody to replace it claims its job anew', inTurn, async () => {
    const worker = await deployment.startWorker()
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'after')
    const answer = requestCapture(payment)
    await hold.reached()
    worker.signal('SIGSTOP')
    await hold.release()
    await until('the lease has lapsed', async () => {
      const rows =
        await deployment.sql`select from jobs where subject_id = ${payment.id} and lease_until <= now()`
      return rows.length > 0
    })
    worker.signal('SIGCONT')
    await worker.says('a late write was fenced')
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    await expectPaidOnce(payment)
    await worker.end()
  })

  test('a worker told to stop finishes what it performs and leaves nothing behind', inTurn, async () => {
    const worker = await deployment.startWorker()
    const payment = await authorized()
    const hold = await holdCaptures(payment, 'after')
    const answer = requestCapture(payment)
    await hold.reached()
    worker.signal('SIGTERM')
    await worker.says('stopping')
    await hold.release()
    expect(await answer).toMatchObject({ status: 200, body: { status: 'captured' } })
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    expect((await attemptsAt(payment)).map(({ outcome }) => outcome)).toEqual(['done'])
    const sessions = await deployment.sql`
      select from pg_stat_activity where datname = current_database() and application_name = 'sluice-worker'`
    expect(sessions).toHaveLength(0)
    await expectPaidOnce(payment)
    const next = await deployment.startWorker()
    paid.push(await pay(deployment.client))
    await expectWhole(deployment, paid)
    await next.end()
  })
})
