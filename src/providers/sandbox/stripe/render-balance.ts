// Payouts, transfers and top-ups in the format of Stripe's API.
import type { Rendered } from './rendered.ts'
import type { Payout, Reversal, Topup, Transfer } from './versions.ts'

export function renderPayout(payout: Payout): Rendered {
  const { id, destination, status, failure } = payout
  return {
    id,
    object: 'payout',
    amount: payout.amount,
    application_fee: null,
    application_fee_amount: null,
    arrival_date: payout.arrival_date,
    automatic: false,
    balance_transaction: payout.balance_transaction,
    created: payout.created,
    currency: payout.currency,
    description: payout.description,
    destination,
    failure_balance_transaction: payout.failure_balance_transaction,
    failure_code: failure?.code ?? null,
    failure_message: failure?.message ?? null,
    livemode: false,
    metadata: payout.metadata,
    method: payout.method,
    original_payout: null,
    payout_method: null,
    reconciliation_status: 'not_applicable',
    reversed_by: null,
    source_type: payout.source_type,
    statement_descriptor: payout.statement_descriptor,
    status,
    trace_id:
      status === 'paid'
        ? { status: 'supported', value: id.slice(-12) }
        : {
            status: status === 'pending' || status === 'in_transit' ? 'pending' : 'unsupported',
            value: null,
          },
    type: destination.startsWith('card_') ? 'card' : 'bank_account',
  }
}

export function renderTransfer(transfer: Transfer): Rendered {
  const { id, amount, amount_reversed, latest_reversals, reversal_count } = transfer
  return {
    id,
    object: 'transfer',
    amount,
    amount_reversed,
    balance_transaction: transfer.balance_transaction,
    created: transfer.created,
    currency: transfer.currency,
    description: transfer.description,
    destination: transfer.destination,
    destination_payment: transfer.destination_payment,
    livemode: false,
    metadata: transfer.metadata,
    reversals: {
      object: 'list',
      data: latest_reversals.map(renderReversal),
      has_more: reversal_count > latest_reversals.length,
      total_count: reversal_count,
      url: `/v1/transfers/${id}/reversals`,
    },
    reversed: amount_reversed === amount,
    source_transaction: transfer.source_transaction,
    source_type: transfer.source_type,
    transfer_group: transfer.transfer_group,
  }
}

export function renderReversal(reversal: Reversal): Rendered {
  return {
    id: reversal.id,
    object: 'transfer_reversal',
    amount: reversal.amount,
    balance_transaction: reversal.balance_transaction,
    created: reversal.created,
    currency: reversal.currency,
    destination_payment_refund: reversal.destination_payment_refund,
    metadata: reversal.metadata,
    source_refund: null,
    transfer: reversal.transfer,
  }
}

export function renderTopup(topup: Topup): Rendered {
  return {
    id: topup.id,
    object: 'topup',
    amount: topup.amount,
    balance_transaction: topup.balance_transaction,
    created: topup.created,
    currency: topup.currency,
    description: topup.description,
    expected_availability_date: topup.expected_availability_date,
    failure_code: topup.failure?.code ?? null,
    failure_message: topup.failure?.message ?? null,
    initiated_by: 'user',
    livemode: false,
    metadata: topup.metadata,
    payment_method: topup.payment_method,
    payment_method_options: null,
    source: topup.source === null ? null : renderSource(topup, topup.source),
    statement_descriptor: topup.statement_descriptor,
    status: topup.status,
    transfer_group: topup.transfer_group,
  }
}

function renderSource({ created, currency }: Topup, id: string): Rendered {
  return {
    id,
    object: 'source',
    amount: null,
    created,
    currency,
    flow: 'none',
    livemode: false,
    metadata: {},
    owner: null,
    statement_descriptor: null,
    status: 'chargeable',
    type: 'ach_debit',
    usage: 'reusable',
  }
}
