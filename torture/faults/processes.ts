// Our own processes: killed, frozen past their leases, started while a server is away.
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { Member, System } from '../system.ts'
import { askCapture, authorized } from './ask.ts'
import type { Fault, Problem } from './fault.ts'

const LEASE_MS = 4000
const POISON_ATTEMPTS = 3

export const PROCESS_FAULTS: Fault[] = [
  {
    name: 'kill-api',
    about: 'kill -9 of an API while clients wait',
    takes_ms: 3000,
    bar_ms: 6000,
    inflict: ({ apis }, random) => killAndStart(random.pick(apis), random),
  },
  {
    name: 'kill-worker',
    about: 'kill -9 of a worker that has jobs in hand',
    takes_ms: 4500,
    bar_ms: 6000,
    inflict: ({ workers }, random) => killAndStart(random.pick(workers), random),
  },
  {
    name: 'kill-workers',
    about: 'kill -9 of all workers at once',
    takes_ms: 4500,
    bar_ms: 6000,
    inflict: async ({ workers }, random) =>
      void (await Promise.all(workers.map((worker) => killAndStart(worker, random)))),
  },
  {
    name: 'stop-worker',
    about: 'SIGSTOP of a worker past its leases, then SIGCONT: its late writes must change nothing',
    takes_ms: 9000,
    bar_ms: 6000,
    inflict: stopWorker,
  },
  {
    name: 'kill-ten-times',
    about: 'kill -9 of whoever performs one job, ten times',
    takes_ms: 42_000,
    bar_ms: 10_000,
    minutes: 3,
    inflict: killTenTimes,
  },
  {
    name: 'poison',
    about: 'a job that ends every process that performs it: parked after its attempts, and seen',
    takes_ms: 20_000,
    bar_ms: 10_000,
    minutes: 3,
    inflict: poison,
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

/** Takes a capture to the processor, where it never arrives, and kills whoever performs it: so often, or until `done`. */
async function killPerformers(
  system: System,
  { key, most, prepare }: { key: string; most: number; prepare?: (payment_id: string) => Promise<unknown> },
): Promise<string> {
  const { sql, workers, wires, tenant_id } = system
  const { id, processor_reference } = await authorized(system, key)
  wires.stripe.swallow(processor_reference)
  await askCapture(system, id, `${key}-capture`)
  await prepare?.(id)
  let attempt = 0
  for (let kills = 1; kills <= most; kills++) {
    const holder = await until('somebody performs the job', async () => {
      const [found] = await sql<{ attempt: number; worker: string }[]>`
        select a.attempt, a.worker from jobs j
        join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id and a.attempt = j.attempt
        where j.tenant_id = ${tenant_id} and j.subject_id = ${id} and j.queue = 'payments' and j.state = 'running'
          and j.attempt > ${attempt}`
      return found
    })
    attempt = holder.attempt
    const worker = workers.find((one) => holder.worker.endsWith(`/${one.process().pid}`))
    await worker?.kill()
    await worker?.start()
  }
  return id
}

async function killTenTimes(system: System, random: Random): Promise<void> {
  try {
    await killPerformers(system, { key: `ten-times-${random.between(0, 1e9)}`, most: 10 })
  } finally {
    system.wires.stripe.swallow(null)
  }
}

/** It has fewer attempts than others, so that the end comes soon. */
async function poison(system: System, random: Random): Promise<Problem[]> {
  const { sql, tenant_id, workers, wires } = system
  const key = `poison-${random.between(0, 1e9)}`
  const began = performance.now()
  try {
    const id = await killPerformers(system, {
      key,
      most: POISON_ATTEMPTS,
      prepare: (payment_id) => sql`
        update jobs set max_attempts = ${POISON_ATTEMPTS}
        where tenant_id = ${tenant_id} and subject_id = ${payment_id} and queue = 'payments' and finished_at is null`,
    })
    await until('it is parked: nobody performs it any more', async () => {
      const [job] = await sql<{ state: string }[]>`
        select state from jobs where tenant_id = ${tenant_id} and subject_id = ${id} and queue = 'payments' and finished_at is null`
      return job?.state === 'unknown'
    })
    await until('operators see it', async () => {
      const seen = await Promise.all(workers.map((worker) => metricOf(worker, 'sluice_jobs_unknown')))
      return seen.some((count) => count > 0)
    })
    // Others were served meanwhile: of what came since, nothing but the newest is open.
    const harmed = await sql<{ id: string }[]>`
      select id from jobs where finished_at is null and state <> 'unknown' and subject_id <> ${id}
        and created_at between now() - ${performance.now() - began} * interval '1 millisecond' and now() - interval '15 seconds'
        and run_at < now() - interval '5 seconds'`
    return harmed.map((job) => ({ problem: 'a poison job held up another', job: job.id }))
  } finally {
    wires.stripe.swallow(null)
  }
}

async function metricOf(worker: Member, name: string): Promise<number> {
  const { url } = JSON.parse(await worker.process().says('/metrics and /readyz listen')) as { url: string }
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1] ?? 0)
}
