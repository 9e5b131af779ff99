// Workers carry out what two operators agreed on: each proposal once, in one transaction.
import { newId } from '#core/ids.ts'
import type { Sql, Tx } from '#core/db.ts'
import { postings } from '../ledger.ts'
import { forcePayoutFail } from '../payouts/fail.ts'
import type { Payout } from '../payouts/payout.ts'
import { findOurs, openDrift } from '../reconciliation/drift.ts'
import { lookAt } from '../reconciliation/looks.ts'
import { storeNotifications } from '../notifications/store.ts'
import type { Proposed } from './proposal.ts'

type Confirmed = {
  id: string
  tenant_id: string
  kind: Proposed['kind']
  payout_id: string | null
  currency: string | null
  amount_minor: number | null
  reason: string
}

/** Carries out the proposal that was confirmed first. Returns whether there was one. Several workers do different ones. */
export async function carryOutNextProposal(sql: Sql): Promise<boolean> {
  return await sql.begin(async (tx) => {
    const [proposal] = await tx<Confirmed[]>`
      select id, tenant_id, kind, payout_id, currency, amount_minor, reason from proposals
      where decision = 'confirmed' and carried_out_at is null
      order by decided_at limit 1 for update skip locked`
    if (proposal === undefined) return false
    const refused = await CARRYING_OUT[proposal.kind](tx, proposal)
    await tx`update proposals set carried_out_at = now(), refused = ${refused} where id = ${proposal.id}`
    return true
  })
}

/** By the kind of the proposal. Null; or why it is not possible any more. */
const CARRYING_OUT: Record<Proposed['kind'], (tx: Tx, proposal: Confirmed) => Promise<string | null>> = {
  correction: postCorrection,
  fail_payout: failPayout,
}

/** Posts the correction, which is its own subject. The balance may become negative. */
async function postCorrection(tx: Tx, { id, tenant_id, currency, amount_minor }: Confirmed): Promise<null> {
  const [debit, credit] =
    amount_minor! > 0 ? ['processor_clearing', 'available'] : ['available', 'processor_clearing']
  const to_post = tx`
    select ${tenant_id}::uuid as tenant_id, ${newId()}::uuid as transfer_id, 'correction' as kind,
      ${id}::uuid as subject_id, ${debit} as debit_account, ${credit} as credit_account, ${currency} as currency,
      ${Math.abs(amount_minor!)}::bigint as amount_minor`
  await tx`with ${postings(tx, to_post)} select`
  return null
}

/** Fails the payout and frees its amount. Where the processor may still pay it, a drift says so at once. */
async function failPayout(tx: Tx, { tenant_id, payout_id, reason }: Confirmed): Promise<string | null> {
  const forced = await forcePayoutFail(tx, { tenant_id, payout_id: payout_id!, reason })
  if (forced === undefined) return 'The payout has ended meanwhile.'
  if (forced.may_leave) await showDrift(tx, forced)
  return null
}

async function showDrift(tx: Tx, { tenant_id, id, processor, processor_reference: reference }: Payout) {
  const of = { tenant_id, subject: 'payout', subject_id: id } as const
  const { ours, since } = (await findOurs(tx, of))!
  const theirs = reference === null ? null : { ...ours, status: 'processing' }
  const there = reference === null ? 'may still pay it' : 'is paying it'
  const detail = `the payout has failed here, and the processor ${there} all the same`
  // No answer of the processor is the reason, so none is later.
  const as_of = 'infinity'
  await openDrift(tx, of, { as_of, payment_id: null, state: 'differs', ours, theirs, detail, since })
  // What the processor says of it now is written there too.
  if (reference !== null)
    await storeNotifications(tx, [lookAt(processor, { subject: 'payout', reference }, `forced:${id}`)])
}
