// The sections of the emulator's page that list payouts, transfers and top-ups.
import { formatMoney } from '#providers/sandbox/stripe/currencies.ts'
import type { Store } from '#providers/sandbox/stripe/store.ts'
import type { Payout, Topup, Transfer } from '#providers/sandbox/stripe/versions.ts'
import { cell, section, type Cell } from '../shared/html.ts'
import { buttons, latest, metadataText, time, type StatusButton } from './page-parts.ts'

export function balanceSections({ payouts, transfers, topups }: Store): string[] {
  return [
    section(
      'Payouts',
      ['id', 'status', 'set by the bank to', 'amount', 'destination', 'created', 'metadata'],
      latest(payouts).map(payoutRow),
    ),
    section(
      'Transfers',
      ['id', 'reverse', 'amount', 'reversed', 'destination', 'created', 'metadata'],
      latest(transfers).map(transferRow),
    ),
    section(
      'Top-ups',
      ['id', 'status', 'set by the bank to', 'amount', 'source', 'created', 'metadata'],
      latest(topups).map(topupRow),
    ),
  ]
}

const ENDS: StatusButton[] = [
  ['paid', 'Paid'],
  ['failed', 'Failed'],
  ['canceled', 'Canceled'],
]
const PAYOUT_MOVES: Partial<Record<Payout['status'], StatusButton[]>> = {
  pending: ENDS,
  in_transit: ENDS,
  paid: [['failed', 'Sent back']],
}
const TOPUP_MOVES: Partial<Record<Topup['status'], StatusButton[]>> = {
  pending: [
    ['succeeded', 'Succeeded'],
    ['failed', 'Failed'],
    ['canceled', 'Canceled'],
  ],
  succeeded: [['reversed', 'Reversed']],
}

function payoutRow({ id, status, amount, currency, destination, created, metadata }: Payout): Cell[] {
  const moves = buttons('settle_payout', id, PAYOUT_MOVES[status])
  return [
    id,
    status,
    moves,
    formatMoney(amount, currency),
    destination,
    time(created),
    metadataText(metadata),
  ]
}

function transferRow(transfer: Transfer): Cell[] {
  const { id, amount, amount_reversed, currency, destination, created, metadata } = transfer
  const remaining = amount - amount_reversed
  const form = `<form method="post" action="/_emulator/page/reverse"><input type="hidden" name="id" value="${id}"><label>amount <input type="number" name="amount" value="${remaining}" min="1" max="${remaining}"></label> <button>Reverse</button></form>`
  return [
    id,
    cell(remaining > 0 ? form : ''),
    formatMoney(amount, currency),
    amount_reversed > 0 ? formatMoney(amount_reversed, currency) : '',
    destination,
    time(created),
    metadataText(metadata),
  ]
}

function topupRow({
  id,
  status,
  amount,
  currency,
  source,
  payment_method,
  created,
  metadata,
}: Topup): Cell[] {
  const moves = buttons('settle_topup', id, TOPUP_MOVES[status])
  const from = source ?? payment_method ?? ''
  return [id, status, moves, formatMoney(amount, currency), from, time(created), metadataText(metadata)]
}
