// Our own processes: killed, frozen past their leases, started while a server is away.
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { Member, System } from '../system.ts'
import type { Fault } from './fault.ts'

const LEASE_MS = 4000

export const PROCESS_FAULTS: Fault[] = [
  {
    name: 'kill-api',
    about: 'kill -9 of an API while clients wait',
    takes_ms: 5000,
    bar_ms: 6000,
    inflict: ({ apis }, random) => killAndStart(random.pick(apis), random),
  },
  {
    name: 'kill-worker',
    about: 'kill -9 of a worker that has jobs in hand',
    takes_ms: 6000,
    bar_ms: 6000,
    inflict: ({ workers }, random) => killAndStart(random.pick(workers), random),
  },
  {
    name: 'kill-workers',
    about: 'kill -9 of all workers at once',
    takes_ms: 7000,
    bar_ms: 6000,
    inflict: async ({ workers }, random) =>
      void (await Promise.all(workers.map((worker) => killAndStart(worker, random)))),
  },
  {
    name: 'stop-worker',
    about: 'SIGSTOP of a worker past its leases, then SIGCONT: its late writes must change nothing',
    takes_ms: 11_000,
    bar_ms: 6000,
    inflict: stopWorker,
  },
  {
    name: 'kill-ten-times',
    about: 'kill -9 of whoever performs one job, ten times',
    takes_ms: 75_000,
    bar_ms: 10_000,
    minutes: 3,
    inflict: killTenTimes,
  },
]

async function killAndStart(member: Member, random: Random): Promise<void> {
  await member.kill()
  await sleep(random.between(0, 1000))
  await member.start()
}

/** Answers of the processor are on their way to it when it freezes, so that it has something to write when it wakes. */
async function stopWorker({ workers, stripe }: System, random: Random): Promise<void> {
  const worker = random.pick(workers)
  const { id } = await stripe('POST', '/_emulator/faults', {
    match: { method: 'POST' },
    times: 40,
    fault: { delay_ms: 400 },
  })
  await stripe('GET', `/_emulator/wait?fault=${id}&hits=20&timeout_ms=3000`)
  worker.process().signal('SIGSTOP')
  await stripe('DELETE', `/_emulator/faults/${id}`)
  await sleep(LEASE_MS + random.between(2000, 3000))
  worker.process().signal('SIGCONT')
}

async function killTenTimes(
  { sql, workers, wires, clients, tenant_id }: System,
  random: Random,
): Promise<void> {
  const key = `ten-times-${random.between(0, 1e9)}`
  const body = {
    idempotency_key: key,
    amount_minor: 1300,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
  }
  const id = await until('a payment to capture', async () => {
    const answer = await clients[0]!.post('/v1/payments', body).catch(() => null)
    return answer?.status === 201 && (answer.body.id as string)
  })
  const [{ reference } = { reference: '' }] = await sql<{ reference: string }[]>`
    select processor_reference as reference from payments where tenant_id = ${tenant_id} and id = ${id}`
  wires.stripe.swallow(reference)
  try {
    const path = `/v1/payments/${id}/capture`
    const capture = { idempotency_key: `${key}-capture` }
    await clients[0]!.post(path, capture, { prefer: 'respond-async' })
    let attempt = 0
    for (let kills = 1; kills <= 10; kills++) {
      const holder = await until('somebody performs the job', async () => {
        const [found] = await sql<{ attempt: number; worker: string }[]>`
          select a.attempt, a.worker from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt
          where j.tenant_id = ${tenant_id} and j.subject_id = ${id} and j.name = 'payment.capture' and j.state = 'running'
            and j.attempt > ${attempt}`
        return found
      })
      attempt = holder.attempt
      const worker = workers.find((one) => holder.worker.endsWith(`/${one.process().pid}`))
      await worker?.kill()
      await worker?.start()
    }
  } finally {
    wires.stripe.swallow(null)
  }
}
