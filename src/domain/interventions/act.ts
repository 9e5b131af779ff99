// What operators do about jobs. Each act depends on the job's state and is recorded, with who did it and why.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { MAX_ATTEMPTS } from '#jobs/job.ts'
import { keyIsTooOld } from '../jobs/calls.ts'
import type { Settlement } from '../jobs/settle.ts'
import { storeNotifications } from '../notifications.ts'
import { settlePayments, type PaymentTold } from '../payments/settle.ts'
import { lookAt } from '../reconciliation/looks.ts'
import { settleRefunds } from '../refunds/settle.ts'

/** What an operator does about a job, and why. */
export type Act = { job_id: string; who: string; reason: string }
/** The job's state after the act; undefined when its state did not allow the act, and nothing was written. */
export type ActResult = { after: string; look_only: boolean } | undefined

/**
 * Makes an open job due, with all its attempts again; also a discarded job, if it has no provider call. The call is
 * sent again with the same key; when the key is too old, it is only looked up.
 */
export async function retryJob(sql: Sql, act: Act): Promise<ActResult> {
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.*, coalesce(${keyIsTooOld(sql)}, false) as look_only from jobs j
      where j.id = ${act.job_id}
        and (j.state in ('ready', 'unknown') or (j.state = 'discarded' and j.operation is null))
      for update
    ), attempt as (
      -- The last attempt did not end the job after all.
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error)
      select tenant_id, id, attempt, worker, started_at, finished_at, outcome, last_error
      from before where worker is not null
    ), after as (
      update jobs j set state = case when before.look_only then 'unknown' else 'ready' end,
        unknown_since = case when before.look_only then coalesce(j.unknown_since, now()) end,
        worker = null, started_at = null, outcome = null, run_at = now(), rung_at = null, finished_at = null,
        max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state, before.look_only
    ), ${recorded(sql, 'retry', act)}
    select state as after, look_only from after`
  return done
}

/**
 * Ends an open job without doing it. Refused while a payment or refund waits for it: then the operator must say what
 * became of that. Refused too for a provider call of a noun that is not known here, whose row could wait for it.
 */
export async function discardJob(sql: Sql, act: Act): Promise<ActResult> {
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown')
        and (j.operation is null or exists (select from (${subject(sql)}) s where not s.under_way))
      for update
    ), told as (
      -- A notification and its job have one id.
      update notifications n set state = 'ignored', applied_at = clock_timestamp(), waits_for = null, parked_at = null
      from before where n.id = before.id and n.state in ('received', 'parked')
    ), after as (
      update jobs j set state = 'discarded', finished_at = now(), request = j.request - 'sealed'
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${recorded(sql, 'discard', act)}
    select state as after, false as look_only from after`
  return done
}

/**
 * Records that the call of a job took effect: a worker looks it up and settles what it finds. `reference` is the
 * processor's id of the new payment or refund; null for a capture or cancellation, whose payment is known.
 */
export async function resolveAsDone(sql: Sql, act: Act, reference: string | null): Promise<ActResult> {
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown') and j.unknown_since is not null
        and (j.operation in ('authorize', 'refund')) = (${reference}::text is not null)
      for update
    ), after as (
      update jobs j set provider_reference = coalesce(${reference}, j.provider_reference), run_at = now(),
        rung_at = null, max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${recorded(sql, 'resolve', act)}
    select state as after, true as look_only from after`
  return done
}

const NEVER_HAPPENED = { code: 'processor_error', message: 'It did not take effect at the processor.' }

/**
 * Records that the call of a job never took effect and will not: its payment or refund is settled as after a
 * definitive failure, by the same statement that workers use. When a notification has settled it meanwhile, nothing
 * is written and `settled` says how it stands. Afterwards the processor is asked, so that a wrong decision shows as a
 * drift.
 */
export async function resolveAsFailed(sql: Sql, act: Act): Promise<ActResult | { settled: string }> {
  return await sql.begin(async (tx) => {
    // From here on no notification can change the payment.
    await tx`
      select from jobs j join payments p on p.tenant_id = j.tenant_id and p.id = j.subject_id
      where j.id = ${act.job_id} for update of j, p`
    const [job] = await tx<(HeldJob & { under_way: boolean; noun: string; status: string })[]>`
      with before as (
        select j.id, j.tenant_id, j.state, j.operation, j.provider_reference, s.noun, s.status, s.under_way
        from jobs j cross join lateral (${subject(tx)}) s
        where j.id = ${act.job_id} and j.state in ('ready', 'unknown')
      ), after as (
        update jobs j set state = 'running', attempt = j.attempt + 1, worker = ${act.who}, started_at = now(),
          lease_token = gen_random_uuid(), lease_until = now() + interval '10 seconds'
        from before where j.tenant_id = before.tenant_id and j.id = before.id and before.under_way
        returning j.*
      ), ${recorded(tx, 'resolve', act, sql`'failed'`)}
      select before.id as job_id, before.tenant_id, after.lease_token, before.operation, p.id as payment_id,
        after.payload ->> 'refund_id' as refund_id, before.noun, before.status, before.under_way, p.processor,
        coalesce(p.processor_reference, before.provider_reference) as payment_reference
      from before
      join jobs j on j.tenant_id = before.tenant_id and j.id = before.id
      join payments p on p.tenant_id = j.tenant_id and p.id = j.subject_id
      left join after on after.id = before.id`
    if (job === undefined) return undefined
    const { noun, status, under_way, processor, payment_reference: reference } = job
    if (!under_way)
      return { settled: `the ${noun} ${noun === 'refund' || status === 'failed' ? 'has' : 'is'} ${status}` }
    await settleAsFailed(tx, job)
    // Without a reference the processor cannot be asked. If the payment exists there, its notifications carry our ids.
    if (reference !== null) {
      const look = lookAt(processor, { subject: 'payment', reference }, `resolved:${job.job_id}`)
      await storeNotifications(tx, [{ ...look, rung: false, request_id: null }])
    }
    return { after: 'failed', look_only: false }
  })
}

type HeldJob = {
  job_id: string
  tenant_id: string
  lease_token: string
  operation: string
  payment_id: string
  refund_id: string | null
  processor: string
  payment_reference: string | null
}

async function settleAsFailed(tx: Tx, job: HeldJob): Promise<void> {
  const { job_id, lease_token, tenant_id, payment_id, refund_id, operation } = job
  const settlement: Settlement = {
    job_id,
    lease_token,
    state: 'failed',
    outcome: 'resolved',
    error: NEVER_HAPPENED,
    delay_ms: 0,
    provider_reference: null,
    rotate: false,
    unsent: false,
    forgive: true,
  }
  const failure = NEVER_HAPPENED
  if (refund_id !== null) {
    const told = { tenant_id, payment_id, refund_id, processor_reference: null, failure }
    await settleRefunds(tx, [{ ...settlement, told: { ...told, status: 'failed' }, notification_id: null }])
    return
  }
  const [payment] = await tx<{ held: boolean }[]>`
    select authorized_at is not null as held from payments where tenant_id = ${tenant_id} and id = ${payment_id}`
  const told: PaymentTold = {
    tenant_id,
    payment_id,
    // A capture or cancellation that failed leaves the payment as it was before.
    status: operation === 'authorize' ? 'failed' : payment?.held === true ? 'authorized' : 'requires_action',
    failed_operation: operation === 'capture' || operation === 'cancel' ? operation : null,
    processor_reference: null,
    amount_capturable_minor: null,
    amount_captured_minor: null,
    client_secret: null,
    capture_before: null,
    cancellation_reason: null,
    failure,
  }
  await settlePayments(tx, [{ ...settlement, told, notification_id: null }])
}

// The row that the call of the job `j` is about, and whether it is still under way; no row when the job has no such
// call.
function subject(sql: Sql | Tx): Fragment {
  return sql`
    select 'refund' as noun, r.status, r.status = 'pending' as under_way from refunds r
    where j.operation = 'refund' and r.tenant_id = j.tenant_id and r.id::text = j.payload ->> 'refund_id'
    union all
    select 'payment', p.status, p.status = case j.operation
      when 'authorize' then 'pending' when 'capture' then 'capturing' when 'cancel' then 'canceling' end
    from payments p where j.operation <> 'refund' and p.tenant_id = j.tenant_id and p.id = j.subject_id`
}

// A part of the statement that acts: records the act. It reads the parts `before` and `after` of that statement.
function recorded(sql: Sql | Tx, act: string, { who, reason }: Act, becomes = sql`after.state`): Fragment {
  return sql`
    recorded as (
      insert into job_interventions (tenant_id, id, job_id, who, act, reason, before, after)
      select before.tenant_id, ${newId()}::uuid, before.id, ${who}, ${act}, ${reason}, before.state, ${becomes}
      from before cross join after
    )`
}
