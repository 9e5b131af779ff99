// Runs two versions at once, as during a deployment. Each version finishes the jobs that the other has enqueued.
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Problem } from '#test/invariants.ts'
import { patchedCopy, type Patch } from '../copy.ts'
import type { Random } from '../random.ts'
import { deploy, type Member } from '../member.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'

/**
 * The next version captures with a job of another name, still handles the old name, and adds a field to all payloads.
 */
export const NEXT_VERSION: Patch[] = [
  {
    file: 'src/jobs/payments.ts',
    from: 'export const paymentJobs = { ',
    to: `export const collectPayment = defineJob({
  ...capturePayment,
  name: 'payment.collect',
  payload: payment.extend({ version: z.literal(2) }),
})
export const paymentJobs = { collectPayment, `,
  },
  {
    file: 'src/workers/handlers/payments/jobs.ts',
    from: "import { authorizePayment, cancelPayment, capturePayment } from '#jobs/payments.ts'",
    to: "import { authorizePayment, cancelPayment, capturePayment, collectPayment } from '#jobs/payments.ts'",
  },
  {
    file: 'src/workers/handlers/payments/jobs.ts',
    from: '  [cancelPayment.name]: ',
    to: `  [collectPayment.name]: calling(collectPayment, (context, job) =>
    change(context, job, 'captured', () => context.processor.capture(job.call.request, job.call.key)),
  ),
  [cancelPayment.name]: `,
  },
  {
    file: 'src/domain/payments/request.ts',
    from: "import { authorizePayment, cancelPayment, capturePayment } from '#jobs/payments.ts'",
    to: "import { authorizePayment, cancelPayment, collectPayment } from '#jobs/payments.ts'",
  },
  {
    file: 'src/domain/payments/request.ts',
    from: 'enqueuingJobs(sql, capturePayment, ',
    to: 'enqueuingJobs(sql, collectPayment, ',
  },
  {
    file: 'src/domain/payments/request.ts',
    from: 'requestJson(sql, capturePayment, ',
    to: 'requestJson(sql, collectPayment, ',
  },
  {
    file: 'src/domain/jobs/request.ts',
    from: '${id}) as payload',
    to: "${id}, 'version', 2) as payload",
  },
]

export const VERSION_FAULTS: Fault[] = [
  {
    name: 'two-versions',
    about: 'an API and a worker of the next version run next to those of this one, and a worker of each dies',
    duration_ms: 14_000,
    recovery_limit_ms: 6000,
    inflict: runTwoVersions,
  },
]

/**
 * At the end the API runs the current version again. The worker of the next version still runs, to finish that
 * version's jobs.
 */
async function runTwoVersions(system: System, random: Random): Promise<Problem[]> {
  const { apis, workers, root, sql } = system
  const next = await patchedCopy(root, NEXT_VERSION)
  system.onStop(next.remove)
  const [api, [old, fresh]] = [apis[1]!, workers as [Member, Member]]
  const [{ deployed_at }] = await sql<[{ deployed_at: string }]>`select clock_timestamp() as deployed_at`
  const pids = { old: [old.process().pid], fresh: [] as number[] }
  await Promise.all([deploy(api, next.path), deploy(fresh, next.path)])
  pids.fresh.push(fresh.process().pid)
  await sleep(random.between(1500, 2500))
  for (const worker of random.shuffle([old, fresh])) {
    await worker.kill()
    await sleep(random.between(0, 500))
    await worker.start()
    pids[worker === old ? 'old' : 'fresh'].push(worker.process().pid)
    await sleep(random.between(500, 1000))
  }
  await deploy(api, root)
  const named = (of: number[]) => of.map((pid) => `${hostname()}/${pid}`)
  const [seen] = await sql<{ next_jobs: number; old_jobs: number; unknown_jobs: number }[]>`
    select count(*) filter (where j.name = 'payment.collect' and a.worker = any(${named(pids.fresh)}::text[])) as next_jobs,
      count(*) filter (where j.name = 'payment.capture' and a.worker = any(${named(pids.fresh)}::text[])) as old_jobs,
      count(*) filter (where j.name = 'payment.collect' and a.worker = any(${named(pids.old)}::text[])) as unknown_jobs
    from all_job_attempts a join jobs j on j.id = a.job_id where a.started_at >= ${deployed_at}`
  return [
    ...(seen!.next_jobs === 0 ? [{ problem: 'the next version ran none of its jobs' }] : []),
    ...(seen!.old_jobs === 0 ? [{ problem: 'the next version ran no job of this one' }] : []),
    ...(seen!.unknown_jobs > 0 ? [{ problem: 'a worker claimed a job that it does not know', ...seen }] : []),
  ]
}
