// Faults of Sluice's processes: killed, or frozen past their leases.
import { setTimeout as sleep } from 'node:timers/promises'
import type { QueueName } from '#core/config/queues.ts'
import { LEASE_MS } from '#domain/jobs/claim.ts'
import { until } from '#test/process.ts'
import { metricOf } from '../metrics.ts'
import type { Random } from '../random.ts'
import type { Member } from '../member.ts'
import type { System } from '../system.ts'
import { requestCapture, authorizePayment } from './requests.ts'
import type { Fault, FaultProblem } from './fault.ts'

const POISON_ATTEMPTS = 3

export const PROCESS_FAULTS: Fault[] = [
  {
    name: 'kill-api',
    about: 'kill -9 of an API while clients wait',
    duration_ms: 3000,
    recovery_limit_ms: 6000,
    inflict: ({ apis }, random) => killAndStart(random.pick(apis), random),
  },
  {
    name: 'kill-worker',
    about: 'kill -9 of a worker with running jobs',
    duration_ms: 4500,
    recovery_limit_ms: 6000,
    inflict: ({ workers }, random) => killAndStart(random.pick(workers), random),
  },
  {
    name: 'kill-workers',
    about: 'kill -9 of all workers at once',
    duration_ms: 4500,
    recovery_limit_ms: 6000,
    inflict: async ({ workers }, random) =>
      void (await Promise.all(workers.map((worker) => killAndStart(worker, random)))),
  },
  {
    name: 'stop-worker',
    about:
      'SIGSTOP of a worker past its leases, then SIGCONT: its late writes must change no job that another worker claimed',
    duration_ms: 9000,
    recovery_limit_ms: 6000,
    fences: true,
    inflict: stopWorker,
  },
  {
    name: 'kill-before-call',
    about: 'kill -9 of a worker whose call has not reached the processor',
    duration_ms: 3500,
    recovery_limit_ms: 6000,
    inflict: (system, random) => killDuringCall(system, `before-call-${random.between(0, 1e9)}`, 1),
  },
  {
    name: 'kill-after-call',
    about: 'kill -9 of a worker whose call took effect, before it recorded it',
    duration_ms: 3500,
    recovery_limit_ms: 6000,
    inflict: killAfterCall,
  },
  {
    name: 'kill-ten-times',
    about: 'kill -9 of the worker that runs one job, ten times',
    duration_ms: 42_000,
    recovery_limit_ms: 10_000,
    minutes: 3,
    inflict: (system, random) => killDuringCall(system, `ten-times-${random.between(0, 1e9)}`, 10),
  },
  {
    name: 'poison',
    about: 'a job that kills every worker that runs it: parked after its attempts, and visible in metrics',
    duration_ms: 20_000,
    recovery_limit_ms: 10_000,
    minutes: 3,
    inflict: poison,
  },
]

async function killAndStart(member: Member, random: Random): Promise<void> {
  await member.kill()
  await sleep(random.between(0, 1000))
  await member.start()
}

async function stopWorker(system: System, random: Random): Promise<void> {
  const worker = random.pick(system.workers).process()
  await whileResponsesPending(system, () => worker.signal('SIGSTOP'))
  try {
    await sleep(LEASE_MS + random.between(2000, 3000))
  } finally {
    worker.signal('SIGCONT')
  }
}

/**
 * Calls `then` while at least 20 provider calls are pending, so that a worker that `then` freezes has results to
 * write when it continues.
 */
export async function whileResponsesPending({ provider }: System, then: () => void): Promise<void> {
  const delay = await provider('stripe').fault({
    match: { method: 'POST' },
    times: 40,
    fault: { delay_ms: 400 },
  })
  await delay.hit(20, 10_000)
  then()
  await delay.remove()
}

/** Waits for the worker that runs the job of this resource in a later attempt than `attempt`. */
export async function findPerformer(
  { sql, workers, tenant_id }: System,
  id: string,
  attempt: number,
  queue: QueueName = 'payments',
): Promise<{ attempt: number; worker: Member }> {
  return await until('a worker runs the job', async () => {
    const [found] = await sql<{ attempt: number; worker: string }[]>`
      select attempt, worker from jobs
      where tenant_id = ${tenant_id} and resource_id = ${id} and queue = ${queue} and state = 'running'
        and attempt > ${attempt}`
    const worker = workers.find((one) => found?.worker.endsWith(`/${one.process().pid}`))
    return found && worker && { attempt: found.attempt, worker }
  })
}

/** Requests a capture that never reaches the processor, and kills the worker of its job `kill_count` times. */
async function killWorkersOf(
  system: System,
  {
    key,
    kill_count,
    prepare,
  }: { key: string; kill_count: number; prepare?: (payment_id: string) => Promise<unknown> },
): Promise<string> {
  const { wires } = system
  const { id, processor_reference } = await authorizePayment(system, key)
  wires.provider('stripe').swallow(processor_reference)
  await requestCapture(system, id, `${key}-capture`)
  await prepare?.(id)
  let attempt = 0
  for (let kills = 1; kills <= kill_count; kills++) {
    const performer = await findPerformer(system, id, attempt)
    attempt = performer.attempt
    await performer.worker.kill()
    await performer.worker.start()
  }
  return id
}

async function killDuringCall(system: System, key: string, kill_count: number): Promise<void> {
  try {
    await killWorkersOf(system, { key, kill_count })
  } finally {
    system.wires.provider('stripe').swallow(null)
  }
}

async function killAfterCall(system: System, random: Random): Promise<void> {
  const { provider, wires } = system
  const key = `after-call-${random.between(0, 1e9)}`
  const { id, processor_reference } = await authorizePayment(system, key)
  wires.provider('stripe').withholdAnswersTo(processor_reference)
  try {
    await requestCapture(system, id, `${key}-capture`)
    await until('the capture took effect', async () => {
      const captures = { effect: 'capture', payment_intent: processor_reference }
      return (await provider('stripe').effects(captures)).length > 0
    })
    const { worker } = await findPerformer(system, id, 0)
    await worker.kill()
    await worker.start()
  } finally {
    wires.provider('stripe').withholdAnswersTo()
  }
}

/** The job has fewer attempts than usual, so that the fault ends sooner. */
async function poison(system: System, random: Random): Promise<FaultProblem[]> {
  const { sql, tenant_id, workers, wires } = system
  const key = `poison-${random.between(0, 1e9)}`
  const countUnknown = async () =>
    Math.max(...(await Promise.all(workers.map((worker) => metricOf(worker, 'sluice_jobs_unknown')))))
  const before = await countUnknown()
  try {
    const id = await killWorkersOf(system, {
      key,
      kill_count: POISON_ATTEMPTS,
      prepare: (payment_id) => sql`
        update jobs set max_attempts = ${POISON_ATTEMPTS}
        where tenant_id = ${tenant_id} and resource_id = ${payment_id} and queue = 'payments' and finished_at is null`,
    })
    await until('the job is parked', async () => {
      const [job] = await sql<{ state: string }[]>`
        select state from jobs where tenant_id = ${tenant_id} and resource_id = ${id} and queue = 'payments' and finished_at is null`
      return job?.state === 'unknown'
    })
    await until('the metrics count the unknown job', async () => (await countUnknown()) > before)
    const harmed = await sql<{ id: string }[]>`
      select id from jobs where finished_at is null and state <> 'unknown' and resource_id is distinct from ${id}
        and run_at < now() - interval '5 seconds' and coalesce(lease_until, run_at) < now()`
    return harmed.map(({ id: late_job }) => ({ problem: 'a poison job delayed another', late_job }))
  } finally {
    wires.provider('stripe').swallow(null)
  }
}
