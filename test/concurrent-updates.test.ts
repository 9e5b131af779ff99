// Statements write correct rows although a row changes while they wait for its lock. PostgreSQL computes such an update
// twice: first with the row of the statement's snapshot, then with the current row. The constraints check both results.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import { CALLS, type CallingResource } from '#jobs/index.ts'
import { settleAiTasks, type AiTaskUpdate } from '#domain/ai-tasks/settle.ts'
import { cancelAiTask } from '#domain/ai-tasks/request.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { beginMessages } from '#domain/messages/begin.ts'
import { cancelMessage } from '#domain/messages/cancel.ts'
import { settleMessages } from '#domain/messages/settle.ts'
import { emptyMessageUpdate, type MessageUpdate } from '#domain/messages/update.ts'
import { requestCancels, requestCaptures } from '#domain/payments/request.ts'
import { settlePayments, type PaymentUpdate } from '#domain/payments/settle.ts'
import { beginPayoutCalls } from '#domain/payouts/begin.ts'
import { forcePayoutFail, requestPayoutFail } from '#domain/payouts/fail.ts'
import { requestPayoutCancels } from '#domain/payouts/request.ts'
import { settlePayouts, type PayoutUpdate } from '#domain/payouts/settle.ts'
import { requestRefunds } from '#domain/refunds/request.ts'
import { importRefund, settleRefunds, type RefundUpdate } from '#domain/refunds/settle.ts'
import { settleTopUps, type TopUpUpdate } from '#domain/top-ups/settle.ts'
import { decideVerification, requestVerificationLink } from '#domain/verifications/request.ts'
import { RESOURCES } from '#domain/resources.ts'
import { settleVerifications, type VerificationUpdate } from '#domain/verifications/settle.ts'
import { changingColumns, crossingsOf, type CrossedRow, type Crossing } from '#test/crossings.ts'
import { createDatabase } from '#test/databases.ts'

const LONG_AGO = '2001-02-03T04:05:06Z'
const FAILURE = { code: 'refused', message: 'No.' }

/** The settlement of an attempt after which the job waits for a retry. */
function retryOf({ job_id, lease_token }: CrossedRow): Settlement {
  return {
    job_id,
    lease_token,
    state: 'ready',
    outcome: 'retry',
    error: null,
    delay_ms: 1000,
    provider_reference: null,
    rotate: false,
    unsent: true,
    forgive: false,
    failing: true,
  }
}

function requestFields({ tenant_id }: CrossedRow) {
  const key = { idempotency_key: newId(), route: 'a route', fingerprint: '', request_id: null }
  return { ...key, tenant_id, job_id: newId(), event_id: newId(), will_wake: false }
}

const payoutUpdate = (
  row: CrossedRow,
  update: Partial<PayoutUpdate> & Pick<PayoutUpdate, 'reported'>,
): PayoutUpdate => ({
  tenant_id: row.tenant_id,
  payout_id: row.id,
  processor_reference: null,
  arrival_date: null,
  returned_minor: 0,
  failure: null,
  ...update,
})
const settlePayout = (update: Partial<PayoutUpdate> & Pick<PayoutUpdate, 'reported'>) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settlePayouts(sql, [{ ...retryOf(row), update: payoutUpdate(row, update), notification_id: null }]),
})

const payouts: Crossing = {
  table: 'payouts',
  async make(sql, { tenant_id, id }) {
    const recipient_id = newId()
    await sql`
      insert into recipients (tenant_id, id, idempotency_key, name, type, currency, country, destination)
      values (${tenant_id}, ${recipient_id}, ${recipient_id}, 'Ada', 'card', 'usd', 'US', 'card_success')`
    await sql`
      insert into payouts (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, processor)
      values (${tenant_id}, ${id}, ${id}, 100, 'usd', ${recipient_id}, 'stripe')`
    return {}
  },
  states: {
    pending: {},
    called: { call_started_at: LONG_AGO },
    unwanted: { call_started_at: LONG_AGO, cancel_requested_at: LONG_AGO },
    'to be failed': {
      call_started_at: LONG_AGO,
      fail_requested_at: LONG_AGO,
      failure: { code: 'failed_manually', manual: true },
    },
    'processing, to be failed': {
      status: 'processing',
      processor_status: 'processing',
      processor_reference: 'po',
      call_started_at: LONG_AGO,
      processing_at: LONG_AGO,
      fail_requested_at: LONG_AGO,
      failure: { code: 'failed_manually', manual: true },
    },
    processing: {
      status: 'processing',
      processor_status: 'processing',
      processor_reference: 'po',
      call_started_at: LONG_AGO,
      processing_at: LONG_AGO,
      arrival_date: '2001-02-04',
      reported_as_of: LONG_AGO,
    },
    paid: {
      status: 'paid',
      processor_status: 'paid',
      processor_reference: 'po',
      call_started_at: LONG_AGO,
      processing_at: LONG_AGO,
      paid_at: LONG_AGO,
      paid_minor: 100,
      returned_minor: 30,
    },
    failed: {
      status: 'failed',
      call_started_at: LONG_AGO,
      failed_at: LONG_AGO,
      failure: { code: 'failed_manually', manual: true },
    },
    canceled: { status: 'canceled', canceled_at: LONG_AGO },
  },
  fixed: [
    'recovered_at',
    'idempotency_key',
    'amount_minor',
    'currency',
    'recipient_id',
    'description',
    'processor',
    'metadata',
  ],
  steps: {
    processing: settlePayout({ reported: 'processing' }),
    paid: settlePayout({ reported: 'paid', returned_minor: 50 }),
    failed: settlePayout({ reported: 'failed', failure: FAILURE, returned_minor: 100 }),
    canceled: settlePayout({ reported: 'canceled' }),
    refused: settlePayout({ reported: 'refused', failure: FAILURE }),
    unsent: settlePayout({ reported: 'unsent' }),
    absent: settlePayout({ reported: 'absent' }),
    'cancel refused': settlePayout({ reported: 'cancel_refused' }),
    'failing by hand': {
      refuses: true,
      run: async (sql, row) => {
        const accepted = await requestPayoutFail(sql, {
          ...requestFields(row),
          payout_id: row.id,
          reason: 'by hand',
        })
        return typeof accepted === 'object' ? accepted.accepted : accepted
      },
    },
    'failing by force': {
      refuses: true,
      run: async (sql, { tenant_id, id }) =>
        (
          await sql.begin(
            async (tx) => await forcePayoutFail(tx, { tenant_id, payout_id: id, reason: 'by force' }),
          )
        )?.may_be_paid,
    },
    canceling: {
      refuses: true,
      run: async (sql, row) =>
        await requestPayoutCancels(sql, [{ ...requestFields(row), payout_id: row.id }]),
    },
    'beginning the call': {
      refuses: true,
      run: async (sql, { tenant_id, id, job_id, lease_token }) =>
        await beginPayoutCalls(sql, [{ tenant_id, payout_id: id, job_id, lease_token }]),
    },
  },
}

const settlePayment = (
  update: Partial<PaymentUpdate> & Pick<PaymentUpdate, 'status'>,
  notification_id: string | null = null,
) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settlePayments(sql, [
      {
        ...retryOf(row),
        notification_id,
        update: {
          tenant_id: row.tenant_id,
          payment_id: row.id,
          failed_operation: null,
          processor_reference: null,
          amount_capturable_minor: null,
          amount_captured_minor: null,
          client_secret: null,
          capture_before: null,
          authorized_at: null,
          cancellation_reason: null,
          failure: null,
          ...update,
        },
      },
    ]),
})

async function makePayment(sql: Sql, { tenant_id, id }: { tenant_id: string; id: string }) {
  await sql`
    insert into payments (tenant_id, id, idempotency_key, amount_minor, currency, method, processor)
    values (${tenant_id}, ${id}, ${id}, 100, 'USD', 'card', 'stripe')`
  return {}
}

const AUTHORIZED = {
  status: 'authorized',
  amount_capturable_minor: 100,
  processor_reference: 'pi',
  authorized_at: LONG_AGO,
  capture_before: LONG_AGO,
}

const payments: Crossing = {
  table: 'payments',
  make: makePayment,
  states: {
    pending: {},
    unwanted: { cancel_requested_at: LONG_AGO, cancellation_reason: 'duplicate' },
    requires_action: {
      status: 'requires_action',
      client_secret: 'sealed',
      processor_reference: 'pi',
      reported_as_of: LONG_AGO,
    },
    declined: {
      status: 'requires_action',
      client_secret: 'other',
      processor_reference: 'pi',
      failure: FAILURE,
    },
    authorized: AUTHORIZED,
    capturing: { ...AUTHORIZED, status: 'capturing', capture_expiry_warned_at: LONG_AGO },
    canceling: {
      ...AUTHORIZED,
      status: 'canceling',
      cancel_requested_at: LONG_AGO,
      cancellation_reason: 'fraudulent',
    },
    captured: {
      ...AUTHORIZED,
      status: 'captured',
      amount_capturable_minor: 0,
      amount_captured_minor: 100,
      amount_refunded_minor: 10,
      amount_refund_reserved_minor: 60,
      captured_at: LONG_AGO,
      dispute: { id: 'd' },
    },
    canceled: { status: 'canceled', processor_reference: 'pi', canceled_at: LONG_AGO },
    failed: { status: 'failed', failure: { code: 'declined' } },
  },
  final: ['captured', 'canceled', 'failed'],
  fixed: [
    'recovered_at',
    'idempotency_key',
    'amount_minor',
    'currency',
    'method',
    'customer_id',
    'merchant_id',
    'description',
    'return_url',
    'processor',
    'metadata',
  ],
  steps: {
    requires_action: settlePayment({ status: 'requires_action', client_secret: 'new' }),
    declined: settlePayment({ status: 'requires_action', failure: FAILURE }, newId()),
    authorized: settlePayment({ status: 'authorized', amount_capturable_minor: 90 }),
    captured: settlePayment({ status: 'captured', amount_captured_minor: 80 }),
    canceled: settlePayment({ status: 'canceled', cancellation_reason: 'abandoned' }),
    failed: settlePayment({ status: 'failed', failure: FAILURE }),
    'a failed capture': settlePayment({
      status: 'authorized',
      failed_operation: 'capture',
      failure: FAILURE,
    }),
    'a failed cancellation': settlePayment({
      status: 'authorized',
      failed_operation: 'cancel',
      failure: FAILURE,
    }),
    capturing: {
      refuses: true,
      run: async (sql, row) =>
        await requestCaptures(sql, [{ ...requestFields(row), payment_id: row.id, amount_minor: null }]),
    },
    canceling: {
      refuses: true,
      run: async (sql, row) =>
        await requestCancels(sql, [
          { ...requestFields(row), payment_id: row.id, reason: null, cancellation_reason: null },
        ]),
    },
    refunding: {
      refuses: true,
      run: async (sql, row) => await requestRefunds(sql, [refundOf(row, null)]),
    },
    'importing a refund': {
      refuses: true,
      run: async (sql, row) =>
        await importRefund(sql, {
          tenant_id: row.tenant_id,
          payment_id: row.id,
          processor: 'stripe',
          processor_reference: `re_${row.id}`,
          amount_minor: 5,
          failure: null,
          own: null,
        }),
    },
  },
}

const refundOf = (row: CrossedRow, amount_minor: number | null, payment_id = row.id) => ({
  ...requestFields(row),
  payment_id,
  refund_id: newId(),
  amount_minor,
  reason: null,
  metadata: {},
})

const settleRefund = (status: RefundUpdate['status']) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settleRefunds(sql, [
      {
        ...retryOf(row),
        notification_id: null,
        update: {
          tenant_id: row.tenant_id,
          payment_id: row.others['payment']!,
          refund_id: row.id,
          status,
          processor_reference: null,
          failure: status === 'failed' ? FAILURE : null,
        },
      },
    ]),
})

const refunds: Crossing = {
  table: 'refunds',
  async make(sql, { tenant_id, id }) {
    const payment = newId()
    await makePayment(sql, { tenant_id, id: payment })
    await sql`
      update payments set status = 'captured', amount_captured_minor = 100, amount_refund_reserved_minor = 60,
        amount_refunded_minor = 60 where tenant_id = ${tenant_id} and id = ${payment}`
    await sql`
      insert into refunds (tenant_id, id, payment_id, idempotency_key, amount_minor, currency, processor)
      values (${tenant_id}, ${id}, ${payment}, ${id}, 60, 'USD', 'stripe')`
    return { payment }
  },
  states: {
    pending: {},
    'with a reference': { processor_reference: 're' },
    succeeded: {
      status: 'succeeded',
      processor_reference: 're',
      processor_status: 'succeeded',
      out_minor: 60,
    },
    failed: { status: 'failed', failure: FAILURE },
    'failed after success': {
      status: 'failed',
      failure: FAILURE,
      processor_reference: 're',
      processor_status: 'succeeded',
      out_minor: 60,
    },
  },
  fixed: [
    'recovered_at',
    'payment_id',
    'idempotency_key',
    'imported',
    'amount_minor',
    'currency',
    'reason',
    'processor',
    'metadata',
  ],
  steps: { failed: settleRefund('failed'), pending: settleRefund('pending') },
}

/** Refunds whose payment changes its amounts in the meantime. */
const refundsOfPayments: Crossing = {
  table: 'payments',
  async make(sql, { tenant_id, id }) {
    await makePayment(sql, { tenant_id, id })
    const [first, second] = [newId(), newId()]
    await sql`
      insert into refunds (tenant_id, id, payment_id, idempotency_key, amount_minor, currency, processor)
      values (${tenant_id}, ${first}, ${id}, ${first}, 60, 'USD', 'stripe'),
        (${tenant_id}, ${second}, ${id}, ${second}, 40, 'USD', 'stripe')`
    return { first, second }
  },
  states: {
    'both pending': capturedWith(100, 0),
    'one succeeded': capturedWith(100, 40),
    'one failed': capturedWith(60, 0),
    'one pending': capturedWith(60, 0),
    none: capturedWith(0, 0),
  },
  fixed: [],
  steps: Object.fromEntries(
    (['succeeded', 'failed'] as const).map((status) => [
      status,
      {
        run: async (sql: Sql, row: CrossedRow) =>
          await settleRefund(status).run(sql, {
            ...row,
            id: row.others['first']!,
            others: { payment: row.id },
          }),
      },
    ]),
  ),
}
refundsOfPayments.steps['refunding the remaining amount'] = {
  refuses: true,
  run: async (sql, row) => await requestRefunds(sql, [refundOf(row, null)]),
}

function capturedWith(reserved: number, refunded: number) {
  return {
    status: 'captured',
    amount_captured_minor: 100,
    amount_refund_reserved_minor: reserved,
    amount_refunded_minor: refunded,
  }
}

const settleTopUp = (reported: TopUpUpdate['reported']) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settleTopUps(sql, [
      {
        ...retryOf(row),
        notification_id: null,
        update: {
          tenant_id: row.tenant_id,
          top_up_id: row.id,
          reported,
          processor_reference: `tu_${row.id}`,
          failure: reported === 'failed' || reported === 'reversed' ? FAILURE : null,
        },
      },
    ]),
})

const topUps: Crossing = {
  table: 'top_ups',
  async make(sql, { tenant_id, id }) {
    await sql`
      insert into top_ups (tenant_id, id, idempotency_key, amount_minor, currency, processor)
      values (${tenant_id}, ${id}, ${id}, 100, 'usd', 'stripe')`
    return {}
  },
  states: {
    pending: {},
    'with a reference': { processor_reference: 'tu', processor_status: 'pending' },
    succeeded: {
      status: 'succeeded',
      processor_reference: 'tu',
      processor_status: 'succeeded',
      received_minor: 100,
      succeeded_at: LONG_AGO,
    },
    'failed by hand': { status: 'failed', failure: { code: 'no' }, failed_at: LONG_AGO },
    failed: {
      status: 'failed',
      processor_reference: 'tu',
      processor_status: 'failed',
      failure: { code: 'no' },
      failed_at: LONG_AGO,
    },
    reversed: {
      status: 'failed',
      processor_reference: 'tu',
      processor_status: 'reversed',
      received_minor: 100,
      reversed_minor: 100,
      succeeded_at: LONG_AGO,
      failure: { code: 'reversed' },
      failed_at: LONG_AGO,
    },
    canceled: { status: 'canceled', processor_reference: 'tu', processor_status: 'canceled' },
  },
  fixed: [
    'recovered_at',
    'idempotency_key',
    'amount_minor',
    'currency',
    'source',
    'description',
    'processor',
    'metadata',
  ],
  steps: {
    succeeded: settleTopUp('succeeded'),
    failed: settleTopUp('failed'),
    canceled: settleTopUp('canceled'),
    reversed: settleTopUp('reversed'),
  },
}

const settleVerification = (update: Partial<VerificationUpdate> & Pick<VerificationUpdate, 'reported'>) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settleVerifications(sql, [
      {
        ...retryOf(row),
        notification_id: null,
        update: {
          tenant_id: row.tenant_id,
          kyc_id: row.id,
          as_of: LONG_AGO,
          provider_reference: null,
          failure: null,
          marks: null,
          link: null,
          ...update,
        },
      },
    ]),
})

const REQUIRES_INPUT = { status: 'requires_input', provider_reference: 'vs', reported_as_of: LONG_AGO }

const verifications: Crossing = {
  table: 'verifications',
  async make(sql, { tenant_id, id }) {
    const customer = newId()
    await sql`
      insert into customers (tenant_id, id, idempotency_key) values (${tenant_id}, ${customer}, ${customer})`
    await sql`
      insert into verifications (tenant_id, id, idempotency_key, subject_type, subject_id, provider)
      values (${tenant_id}, ${id}, ${id}, 'customer', ${customer}, 'stripe')`
    return {}
  },
  states: {
    pending: {},
    requires_input: REQUIRES_INPUT,
    linked: { ...REQUIRES_INPUT, links: { a: { sealed: 'x', until: LONG_AGO } }, links_until: LONG_AGO },
    abandoned: {
      ...REQUIRES_INPUT,
      cancel_requested_at: LONG_AGO,
      cancellation_reason: 'abandoned',
      failure: FAILURE,
    },
    outdated: { ...REQUIRES_INPUT, outdated: true },
    processing: { status: 'processing', provider_reference: 'vs', reported_as_of: '2002-02-03T04:05:06Z' },
    refused: { status: 'rejected', failure: { code: 'refused' } },
    approved: {
      status: 'approved',
      decision: 'approved',
      decided_by: 'provider',
      decided_at: LONG_AGO,
      provider_reference: 'vs',
    },
    'rejected by hand': {
      status: 'rejected',
      decision: 'rejected',
      decided_by: 'manual',
      decided_at: LONG_AGO,
      decided_by_key_id: '00000000-0000-7000-8000-000000000001',
      decision_reason: 'refusalError',
    },
  },
  final: ['rejected by hand'],
  fixed: [
    'recovered_at',
    'idempotency_key',
    'subject_type',
    'subject_id',
    'subject_fingerprint',
    'requested_at',
    'return_url',
    'provider',
    'metadata',
  ],
  steps: {
    requires_input: settleVerification({ reported: 'requires_input', failure: FAILURE }),
    'a link': settleVerification({
      reported: 'requires_input',
      as_of: '2001-03-03T04:05:06Z',
      link: { sealed: 's', valid_ms: 1000 },
    }),
    processing: settleVerification({ reported: 'processing', as_of: '2003-02-03T04:05:06Z' }),
    verified: settleVerification({ reported: 'verified' }),
    canceled: settleVerification({ reported: 'canceled' }),
    refused: settleVerification({ reported: 'refused', failure: FAILURE }),
    'cancel refused': settleVerification({ reported: 'cancel_refused' }),
    'deciding by hand': {
      refuses: true,
      run: async (sql, row) =>
        await decideVerification(sql, {
          ...requestFields(row),
          kyc_id: row.id,
          key_id: newId(),
          decision: 'rejected',
          reason: 'by hand',
        }),
    },
    'requesting a link': {
      refuses: true,
      run: async (sql, row) => await requestVerificationLink(sql, { ...requestFields(row), kyc_id: row.id }),
    },
  },
}

const TO = [{ address: 'a', sealed: 'b' }]
const settleMessage = (update: Partial<MessageUpdate> & Pick<MessageUpdate, 'reported'>) => ({
  run: async (sql: Sql, row: CrossedRow) =>
    await settleMessages(sql, [
      {
        ...retryOf(row),
        notification_id: null,
        happened_at: null,
        update: { ...emptyMessageUpdate, tenant_id: row.tenant_id, message_id: row.id, ...update },
      },
    ]),
})
const NOT_ACCEPTED = { code: 'provider_error', message: 'No.', provider_code: null } as const

const messages: Crossing = {
  table: 'messages',
  async make(sql, { tenant_id, id }) {
    await sql`
      insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, recipients, provider, segments,
        encoding, send_at)
      values (${tenant_id}, ${id}, ${id}, 'sms', 'queued', 'sealed', ${sql.json(TO)}, 'twilio', 1, 'GSM-7',
        ${LONG_AGO})`
    return {}
  },
  states: {
    queued: { status: 'queued', recipients: TO, content: 'text' },
    scheduled: { status: 'scheduled', recipients: TO, content: 'text' },
    sending: { status: 'sending', recipients: TO, content: 'text', begun_at: LONG_AGO },
    unknown: { status: 'unknown', recipients: TO, failure: NOT_ACCEPTED, begun_at: LONG_AGO },
    sent: {
      status: 'sent',
      recipients: [{ ...TO[0], status: 'accepted' }],
      provider_reference: 'SM',
      provider_status: 'sent',
      sent_at: LONG_AGO,
      lookup_at: LONG_AGO,
    },
    delivered: {
      status: 'delivered',
      recipients: TO,
      provider_reference: 'SM',
      provider_status: 'delivered',
      sent_at: LONG_AGO,
      delivered_at: LONG_AGO,
      price: { amount: '1' },
    },
    undelivered: {
      status: 'undelivered',
      recipients: TO,
      provider_reference: 'SM',
      provider_status: 'undelivered',
      sent_at: LONG_AGO,
      failure: NOT_ACCEPTED,
    },
    failed: { status: 'failed', recipients: TO, failure: NOT_ACCEPTED, redacted_at: LONG_AGO },
    canceled: { status: 'canceled', recipients: TO },
  },
  fixed: [
    'idempotency_key',
    'channel',
    'envelope',
    'sender',
    'terms',
    'tags',
    'provider',
    'segments',
    'encoding',
    'send_at',
    'metadata',
  ],
  steps: {
    queued: settleMessage({ reported: 'queued' }),
    refused: settleMessage({ reported: 'refused', failure: NOT_ACCEPTED }),
    unknown: settleMessage({ reported: 'unknown', failure: NOT_ACCEPTED }),
    unresolved: settleMessage({ reported: 'unresolved', failure: NOT_ACCEPTED }),
    sent: settleMessage({ reported: 'sent', provider_status: 'queued' }),
    delivered: settleMessage({ reported: 'delivered', provider_status: 'delivered' }),
    undelivered: settleMessage({ reported: 'undelivered', failure: NOT_ACCEPTED }),
    failed: settleMessage({ reported: 'failed', failure: NOT_ACCEPTED }),
    beginning: {
      refuses: true,
      run: async (sql, { tenant_id, id, job_id, lease_token }) =>
        await beginMessages(sql, [{ tenant_id, message_id: id, job_id, lease_token }]),
    },
    canceling: {
      refuses: true,
      run: async (sql, row) => await cancelMessage(sql, { ...requestFields(row), message_id: row.id }),
    },
  },
}

type TaskUpdate = AiTaskUpdate extends infer Each
  ? Each extends unknown
    ? Omit<Each, 'tenant_id' | 'ai_task_id'>
    : never
  : never
const settleTask = (update: TaskUpdate) => ({
  refuses: true,
  run: async (sql: Sql, row: CrossedRow) =>
    await settleAiTasks(sql, [
      { ...retryOf(row), update: { tenant_id: row.tenant_id, ai_task_id: row.id, ...update } },
    ]),
})

const aiTasks: Crossing = {
  table: 'ai_tasks',
  async make(sql, { tenant_id, id }) {
    await sql`
      insert into ai_tasks (tenant_id, id, idempotency_key, kind, max_output_tokens)
      values (${tenant_id}, ${id}, ${id}, 'generate', 10)`
    return {}
  },
  states: {
    queued: {},
    tried: { attempts: 1, started_at: LONG_AGO },
    running: { status: 'running', attempts: 2, started_at: LONG_AGO },
    succeeded: {
      status: 'succeeded',
      attempts: 1,
      started_at: LONG_AGO,
      finished_at: LONG_AGO,
      output: { a: 1 },
      model: 'm',
      usage: { input_tokens: 1 },
    },
    erased: {
      status: 'succeeded',
      attempts: 1,
      started_at: LONG_AGO,
      finished_at: LONG_AGO,
      output_erased: true,
    },
    failed: { status: 'failed', failure: FAILURE, finished_at: LONG_AGO },
    canceled: { status: 'canceled', finished_at: LONG_AGO },
  },
  fixed: ['idempotency_key', 'kind', 'max_output_tokens', 'metadata'],
  steps: {
    running: settleTask({ status: 'running' }),
    queued: settleTask({ status: 'queued', not_sent: false }),
    succeeded: settleTask({ status: 'succeeded', output: { b: 2 }, model: 'n', usage: null }),
    failed: settleTask({
      status: 'failed',
      failure: { code: 'ai_error', message: 'No.' },
      model: null,
      usage: null,
    }),
    canceling: {
      refuses: true,
      run: async (sql, row) => await cancelAiTask(sql, { ...requestFields(row), ai_task_id: row.id }),
    },
  },
}

const CROSSINGS = { payouts, payments, refunds, refundsOfPayments, topUps, verifications, messages, aiTasks }

let sql: Sql
let ends: AsyncDisposableStack
beforeAll(async () => {
  ends = new AsyncDisposableStack()
  const database = await createDatabase()
  ends.defer(database.drop)
  sql = connectDatabase(database.url, { max: 10, application_name: 'test' })
  ends.defer(() => sql.end())
})
afterAll(async () => await ends?.disposeAsync())

describe.each(Object.entries(CROSSINGS))('%s', (_name, crossing) => {
  test.each(Object.keys(crossing.steps))(
    'the step "%s" gives a correct result for rows that change before they are locked',
    async (step) => {
      const crossings = await crossingsOf(sql, crossing, step)
      expect(crossings.map(({ change, crossed }) => ({ change, crossed }))).toEqual(
        crossings.map(({ change, allowed }) => ({ change, crossed: allowed })),
      )
    },
  )
})

test('a payout has the arrival date of the attempt that began last, in any order of responses', async () => {
  const tenant_id = newId()
  const id = newId()
  await sql`insert into tenants (id, slug, name) values (${tenant_id}, ${tenant_id}, 'crossed')`
  await payouts.make(sql, { tenant_id, id })
  const reportArrival = async (began_s: number, arrival_date: string) => {
    const row = { tenant_id, id, job_id: newId(), lease_token: newId(), others: {} }
    await sql`
      insert into jobs (id, tenant_id, queue, name, resource_id, payload, state, attempt, max_attempts, worker, started_at,
        lease_token, lease_until)
      values (${row.job_id}, ${tenant_id}, 'payouts', 'test', ${id}, '{}', 'running', 1, 5, 'test',
        now() + ${began_s} * interval '1 second', ${row.lease_token}, now() + interval '1 hour')`
    await settlePayout({ reported: 'processing', arrival_date }).run(sql, row)
    const [payout] = await sql<{ arrival_date: string }[]>`select arrival_date from payouts where id = ${id}`
    return payout!.arrival_date
  }
  expect(await reportArrival(1, '2026-11-24')).toBe('2026-11-24')
  expect(await reportArrival(3, '2026-11-26')).toBe('2026-11-26')
  expect(await reportArrival(2, '2026-11-25')).toBe('2026-11-26')
  expect(await reportArrival(4, '2026-11-27')).toBe('2026-11-27')
})

test('the scenarios of this file change each mutable column of every resource with provider calls', async () => {
  const calling = new Set(CALLS.map(({ job }) => RESOURCES[job.split('.')[0] as CallingResource].table))
  expect(new Set(Object.values(CROSSINGS).map(({ table }) => table))).toEqual(calling)
  for (const [name, crossing] of Object.entries(CROSSINGS)) {
    if (crossing.fixed.length === 0) continue
    const states = Object.values(crossing.states)
    const changing = await changingColumns(sql, crossing)
    const changed = changing.filter(
      (column) => new Set(states.map((state) => JSON.stringify(state[column] ?? null))).size > 1,
    )
    expect({ name, columns: changed }).toEqual({ name, columns: changing })
  }
})
