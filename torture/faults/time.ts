// Time faults: clock skew, a blocked event loop, and a day between a call and its next attempt.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import { withPromptNotifications } from '../notifications.ts'
import type { Random } from '../random.ts'
import type { Member } from '../member.ts'
import type { System } from '../system.ts'
import { requestPayment, requestRefund, capturePayment } from './requests.ts'
import type { Fault } from './fault.ts'
import { CALLING_QUEUES, pauseCalls, resumeCalls } from './pause.ts'
import { whileResponsesPending } from './processes.ts'

const CLOCK_DIFFERENCE_MS = 5 * 60_000
/** The time for which `preload.ts` blocks the event loop. */
const BLOCKED_MS = 6000
const DAY_MS = 24 * 3_600_000

export const TIME_FAULTS: Fault[] = [
  {
    name: 'clocks-apart',
    about: "the workers' clocks differ by five minutes, and one of the workers dies",
    duration_ms: 9000,
    recovery_limit_ms: 6000,
    inflict: setClocksApart,
  },
  {
    name: 'block-loop',
    about: "a worker's event loop is blocked past its leases: its late writes must change nothing",
    duration_ms: 7000,
    recovery_limit_ms: 6000,
    fences: true,
    async inflict(system, random) {
      const worker = random.pick(system.workers).process()
      await whileResponsesPending(system, () => worker.signal('SIGUSR2'))
      await sleep(BLOCKED_MS)
    },
  },
  {
    name: 'day-passed',
    about:
      'a day passes after answers were lost and the workers died: sent calls are looked up, not sent again',
    duration_ms: 9000,
    recovery_limit_ms: 10_000,
    inflict: advanceClockByDay,
  },
]

async function setClocksApart({ workers }: System, random: Random): Promise<void> {
  const setTo = (worker: Member, ms: number) => restart(worker, { TORTURE_CLOCK_MS: String(ms) })
  await Promise.all(
    workers.map((worker, index) =>
      setTo(worker, index === 0 ? CLOCK_DIFFERENCE_MS / 2 : -CLOCK_DIFFERENCE_MS / 2),
    ),
  )
  await sleep(random.between(500, 1500))
  const victim = random.pick(workers)
  await victim.kill()
  await victim.start()
  await sleep(random.between(500, 1500))
  await Promise.all(workers.map((worker) => setTo(worker, 0)))
}

async function restart(worker: Member, env: Record<string, string>): Promise<void> {
  await worker.kill('SIGTERM')
  await worker.start({ env })
}

async function advanceClockByDay(system: System, random: Random): Promise<Problem[]> {
  const { control } = system.provider('stripe')
  try {
    // No notification may be lost: the processor dates its event a day ahead, so the reconciler, which reads the event
    // list only up to the present, would not find it.
    return await withPromptNotifications(system, () => lookUpAfterDay(system, random))
  } finally {
    system.wires.provider('stripe').withholdAnswersTo()
    const { offset_ms } = await control('GET', '/clock')
    await control('POST', '/clock', { advance_ms: -offset_ms })
    await control('POST', '/webhooks', { paused: false })
    await resumeCalls(system)
  }
}

/** After a day the processor has forgotten the idempotency keys: a repeated call would have a second effect. */
async function lookUpAfterDay(system: System, random: Random): Promise<Problem[]> {
  const { sql, wires, workers, provider, tenant_id } = system
  const stripe = provider('stripe')
  const label = `day-passed-${random.between(0, 1e9)}`
  // Only lookups may settle these jobs, not notifications.
  await stripe.control('POST', '/webhooks', { paused: true })
  const paid = await capturePayment(system, `${label}-paid`)
  wires.provider('stripe').withholdAnswersTo(paid.processor_reference, label)
  const created = await requestPayment(system, label)
  const refunded = await requestRefund(system, paid.id, `${label}-refund`)
  const authorizations = { effect: 'authorize', 'metadata[sluice_payment_id]': created.id }
  const refunds = { effect: 'refund', 'metadata[sluice_refund_id]': refunded.id }
  await until('both took effect', async () => {
    const effects = [await stripe.effects(authorizations), await stripe.effects(refunds)]
    return effects.flat().length === 2
  })

  // No other call may be in progress, because its job would stay unknown for a long time.
  await pauseCalls(system)
  await until('all other jobs are settled', async () => {
    const other_jobs = await sql`
      select from jobs
      where queue = any(${CALLING_QUEUES}::text[]) and state = 'running' and resource_id not in (${created.id}, ${paid.id})`
    return other_jobs.length === 0
  })
  await Promise.all(workers.map((worker) => worker.kill()))
  wires.provider('stripe').withholdAnswersTo()
  const later_ms = Date.now()
  await stripe.control('POST', '/clock', { advance_ms: DAY_MS })
  await sql`
    update jobs set first_sent_at = first_sent_at - ${DAY_MS} * interval '1 millisecond' where finished_at is null`
  await resumeCalls(system)
  await Promise.all(workers.map((worker) => worker.start()))
  const keys = await until('both jobs have succeeded in another attempt', async () => {
    const calls = await sql<{ key: string; succeeded: boolean }[]>`
      select key, state = 'succeeded' and attempt > 1 as succeeded from jobs
      where tenant_id = ${tenant_id} and ((operation = 'authorize' and resource_id = ${created.id})
        or (operation = 'refund' and payload ->> 'refund_id' = ${refunded.id}))`
    return calls.length === 2 && calls.every(({ succeeded }) => succeeded) && calls.map(({ key }) => key)
  })
  const sent: { idempotency_key: string | null }[] = await stripe.requests({
    method: 'POST',
    since_ms: later_ms,
  })
  return keys
    .filter((key) => sent.some(({ idempotency_key }) => idempotency_key === key))
    .map((key) => ({ problem: 'a call of the day before was sent again', key }))
}
