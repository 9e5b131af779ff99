// The resources with scenarios: the creation, moves and allowed transitions of each.
import { constantFrom, record } from 'fast-check'
import { BY_CARD, freshKey } from '#test/client.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import type { SendRequest } from './recording-client.ts'
import { messages } from './messages.ts'
import {
  post,
  statusOf,
  allowedInStatuses,
  type TenantMove,
  type ProviderMove,
  type Move,
  type ResourceModel,
  type Resource,
} from './resource.ts'

const byProvider = (path: (reference: string) => string, statuses: string[]): Record<string, ProviderMove> =>
  Object.fromEntries(statuses.map((status) => [status, { by: 'provider', path, status }]))

async function capturedBy(
  sendRequest: SendRequest,
  payment_method: string,
  amount_minor: number,
): Promise<Resource> {
  const { id } = await post(sendRequest, '/v1/payments', { ...BY_CARD, payment_method, amount_minor })
  return (await sendRequest('POST', `/v1/payments/${id}/capture`)).body
}

const payouts: ResourceModel = {
  name: 'payouts',
  parameters: record({
    destination: constantFrom(
      'acct_success',
      'ba_success',
      'ba_noAccount',
      'ba_lateReturn',
      'ba_refused',
      'card_success',
      'ba_manual',
      'ba_manual',
      'ba_pending',
      'ba_pending',
    ),
    amount_minor: constantFrom(1, 100, 1000),
  }),
  async create(sendRequest, { destination, amount_minor }) {
    await capturedBy(sendRequest, 'pm_card_visa', 1000)
    const types = { ba: 'bank_account', card: 'card', acct: 'account' }
    const type = types[destination.split('_')[0] as keyof typeof types]
    const { id: recipient_id } = await post(sendRequest, '/v1/recipients', {
      ...RECIPIENT,
      type,
      destination,
    })
    const { id } = await post(sendRequest, '/v1/payouts', { amount_minor, currency: 'usd', recipient_id })
    return `/v1/payouts/${id}`
  },
  moves: {
    cancel: {
      by: 'tenant',
      path: ({ id }) => `/v1/payouts/${id}/cancel`,
      allowedStatuses: allowedInStatuses(['pending', 'processing'], [200, 202, 409]),
    },
    fail: {
      by: 'tenant',
      path: ({ id }) => `/v1/payouts/${id}/fail`,
      body: () => ({ reason: 'The payout never arrived.' }),
      allowedStatuses: allowedInStatuses(['pending', 'processing'], [200, 202, 409]),
    },
    archive: {
      by: 'tenant',
      method: 'DELETE',
      path: ({ recipient_id }) => `/v1/recipients/${recipient_id}`,
      allowedStatuses: () => [200],
    },
    too_much: {
      by: 'tenant',
      path: () => '/v1/payouts',
      body: ({ recipient_id }) => ({ amount_minor: 90_000_000_000, currency: 'usd', recipient_id }),
      allowedStatuses: () => [422],
    },
    ...byProvider((reference) => `/payouts/${reference}/settle`, ['paid', 'failed', 'canceled']),
  },
  stateOf: statusOf,
  next: {
    pending: ['processing', 'paid', 'failed', 'canceled'],
    processing: ['paid', 'failed', 'canceled'],
    paid: ['failed'],
    failed: [],
    canceled: [],
  },
  referenceOf: ({ processor_reference }) => processor_reference,
}

const topUps: ResourceModel = {
  name: 'top-ups',
  parameters: record({ source: constantFrom('src_success', 'src_fails', 'src_manual', 'src_manual', null) }),
  async create(sendRequest, { source }) {
    const { id } = await post(sendRequest, '/v1/wallet/top_ups', {
      amount_minor: 500,
      currency: 'usd',
      source,
    })
    return `/v1/wallet/top_ups/${id}`
  },
  moves: byProvider(
    (reference) => `/topups/${reference}/settle`,
    ['succeeded', 'failed', 'canceled', 'reversed', 'reversed'],
  ),
  stateOf: statusOf,
  next: { pending: ['succeeded', 'failed', 'canceled'], succeeded: ['failed'], failed: [], canceled: [] },
  referenceOf: ({ processor_reference }) => processor_reference,
}

const PARTIES = { customer: { name: 'Ada' }, merchant: MERCHANT, recipient: RECIPIENT }

const verifications: ResourceModel = {
  name: 'verifications',
  parameters: record({ subject_type: constantFrom('customer', 'merchant', 'recipient') }),
  async create(sendRequest, { subject_type }) {
    const party = PARTIES[subject_type as keyof typeof PARTIES]
    const { id: subject_id } = await post(sendRequest, `/v1/${subject_type}s`, party)
    const { id } = await post(sendRequest, '/v1/compliance/kyc', { subject_type, subject_id })
    return `/v1/compliance/kyc/${id}`
  },
  moves: {
    ...Object.fromEntries(
      ['approved', 'rejected'].map((decision) => [
        `decide ${decision}`,
        {
          by: 'tenant',
          path: ({ id }) => `/v1/compliance/kyc/${id}/decide`,
          body: () => ({ decision, reason: 'The document was seen in person.' }),
          allowedStatuses: ({ decided_by }) => (decided_by === 'manual' ? [409] : [200]),
        } satisfies Move,
      ]),
    ),
    link: {
      by: 'tenant',
      path: ({ id }) => `/v1/compliance/kyc/${id}/link`,
      allowedStatuses: allowedInStatuses(['requires_input'], [200]),
    },
    another: {
      by: 'tenant',
      path: () => '/v1/compliance/kyc',
      body: ({ subject_type, subject_id }) => ({ subject_type, subject_id }),
      // The request may be refused, because the subject has another verification or is deleted.
      allowedStatuses: ({ status }) =>
        ['pending', 'requires_input', 'processing'].includes(status) ? [409, 422] : [201, 409, 422],
    },
    delete: {
      by: 'tenant',
      method: 'DELETE',
      path: ({ subject_type, subject_id }) => `/v1/${subject_type}s/${subject_id}`,
      allowedStatuses: () => [200],
    },
    ...byProvider(
      (reference) => `/identity/${reference}/settle`,
      ['verified', 'requires_input', 'processing', 'canceled'],
    ),
  },
  stateOf: statusOf,
  next: {
    pending: ['requires_input', 'processing', 'approved', 'rejected'],
    requires_input: ['processing', 'approved', 'rejected'],
    processing: ['requires_input', 'approved', 'rejected'],
    approved: ['rejected'],
    rejected: ['approved'],
  },
  referenceOf: ({ provider_reference }) => provider_reference,
}

const disputes: ResourceModel = {
  name: 'disputes',
  parameters: record({
    payment_method: constantFrom(
      'pm_card_createDispute',
      'pm_card_createDispute',
      'pm_card_createDisputeInquiry',
    ),
  }),
  async create(sendRequest, { payment_method }, settled) {
    const { id } = await capturedBy(sendRequest, payment_method, 1000)
    await settled()
    const [dispute] = (await sendRequest('GET', `/v1/disputes?payment_id=${id}`)).body
    return dispute === undefined ? null : `/v1/disputes/${dispute.id}`
  },
  moves: {
    refund: {
      by: 'tenant',
      path: ({ payment_id }) => `/v1/payments/${payment_id}/refunds`,
      body: () => ({ amount_minor: 400 }),
      allowedStatuses: () => [201, 402, 409, 422, 502],
    },
    ...byProvider((reference) => `/disputes/${reference}/close`, ['won', 'lost', 'warning_closed']),
  },
  stateOf: statusOf,
  next: {
    needs_response: ['under_review', 'won', 'lost'],
    under_review: ['needs_response', 'won', 'lost'],
    won: [],
    lost: ['needs_response', 'under_review', 'won'],
    warning: ['needs_response', 'under_review', 'won', 'lost'],
  },
  referenceOf: ({ processor_reference }) => processor_reference,
}

const aiTasks: ResourceModel = {
  name: 'AI tasks',
  parameters: record({
    marker: constantFrom('', '', '', '[[refuse]]', '[[garbage]]', '[[429]]', '[[slow]]'),
    kind: constantFrom('generate', 'classify', 'extract'),
    max_output_tokens: constantFrom(null, 1, 200),
  }),
  async create(sendRequest, { kind, marker, max_output_tokens }) {
    const text = `charged twice ${marker} ${freshKey()}`
    const inputs = {
      generate: { prompt: text },
      classify: { text, labels: ['charged', 'other'] },
      extract: { text, schema: { type: 'object', properties: { n: { type: 'integer', default: 1 } } } },
    }
    const input = inputs[kind as keyof typeof inputs]
    const { id } = await post(sendRequest, '/v1/ai/tasks', { kind, input, max_output_tokens })
    return `/v1/ai/tasks/${id}`
  },
  moves: {
    cancel: {
      by: 'tenant',
      path: ({ id }) => `/v1/ai/tasks/${id}/cancel`,
      allowedStatuses: allowedInStatuses(['queued', 'running'], [200, 409]),
    },
  },
  stateOf: statusOf,
  next: {
    queued: ['running', 'succeeded', 'failed', 'canceled'],
    running: ['queued', 'succeeded', 'failed', 'canceled'],
    succeeded: [],
    failed: [],
    canceled: [],
  },
}

/** Recipients and merchants: archived, and used afterwards. */
function parties(name: 'recipient' | 'merchant', use: TenantMove): ResourceModel {
  return {
    name: `${name}s`,
    parameters: record({}),
    async create(sendRequest) {
      const { id } = await post(sendRequest, `/v1/${name}s`, PARTIES[name])
      return `/v1/${name}s/${id}`
    },
    moves: {
      use,
      change: {
        by: 'tenant',
        method: 'PATCH',
        path: ({ id }) => `/v1/${name}s/${id}`,
        body: () => ({ metadata: { [freshKey()]: 1 } }),
        allowedStatuses: () => [200],
      },
      archive: {
        by: 'tenant',
        method: 'DELETE',
        path: ({ id }) => `/v1/${name}s/${id}`,
        allowedStatuses: () => [200],
      },
    },
    stateOf: ({ archived_at }) => (archived_at === null ? 'active' : 'archived'),
    next: { active: ['archived'], archived: [] },
  }
}

export const SCENARIO_RESOURCES: ResourceModel[] = [
  payouts,
  topUps,
  verifications,
  disputes,
  aiTasks,
  messages,
  parties('recipient', {
    by: 'tenant',
    path: () => '/v1/payouts',
    body: ({ id }) => ({ amount_minor: 1, currency: 'usd', recipient_id: id }),
    allowedStatuses: ({ archived_at }) => (archived_at === null ? [201, 422] : [422]),
  }),
  parties('merchant', {
    by: 'tenant',
    path: () => '/v1/payments',
    body: ({ id }) => ({ ...BY_CARD, amount_minor: 1000, merchant_id: id }),
    allowedStatuses: ({ archived_at }) => (archived_at === null ? [201] : [422]),
  }),
]
