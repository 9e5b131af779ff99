// Carries out confirmed proposals, each once, in one transaction. A proposal that cannot be carried out does not
// block others.
import { newId } from '#core/ids.ts'
import { isRowError, type Sql, type Tx } from '#core/db.ts'
import { postings } from '../ledger.ts'
import { isLiveTenant } from '../modes.ts'
import { forcePayoutFail } from '../payouts/fail.ts'
import type { Payout } from '../payouts/payout.ts'
import { findRowSnapshot, openDrift } from '../reconciliation/drift.ts'
import { requestLookup } from '../reconciliation/lookups.ts'
import { storeNotifications } from '../notifications/store.ts'

/** The maximum wait for a locked row or account. */
const LOCK_TIMEOUT_MS = 3_000
/** The maximum length of an error's text. */
const MAX_ERROR_LENGTH = 500

type Correction = { kind: 'correction'; currency: string; amount_minor: number }
type PayoutFailure = { kind: 'fail_payout'; payout_id: string }
type ConfirmedProposal<Kind> = Kind & { id: string; tenant_id: string; reason: string }

/**
 * Carries out the proposal that was confirmed first; previously failed proposals come last. Returns whether there was
 * a proposal. Several workers carry out different proposals. Throws if the attempt fails: the proposal stores the
 * error and is retried.
 */
export async function carryOutNextProposal(sql: Sql): Promise<boolean> {
  let proposal: ConfirmedProposal<Correction | PayoutFailure> | undefined
  try {
    return await sql.begin(async (tx) => {
      await tx`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`
      const [found] = await tx<ConfirmedProposal<Correction | PayoutFailure>[]>`
        select id, tenant_id, kind, payout_id, currency, amount_minor, reason from proposals
        where decision = 'confirmed' and carried_out_at is null
        order by failed_at nulls first, decided_at limit 1 for update skip locked`
      proposal = found
      if (proposal === undefined) return false
      const refused = await carryOut(tx, proposal)
      await tx`
        update proposals set carried_out_at = now(), refused = ${refused}, failed_at = null, error = null
        where id = ${proposal.id}`
      return true
    })
  } catch (error) {
    // If the postponement fails too, the first error is reported.
    if (proposal !== undefined) await postpone(sql, proposal.id, error).catch(() => undefined)
    throw error
  }
}

/** Carries out a proposal. Returns the reason if the proposal is no longer possible; null after success. */
async function carryOut(
  tx: Tx,
  proposal: ConfirmedProposal<Correction | PayoutFailure>,
): Promise<string | null> {
  try {
    return await tx.savepoint(async (part) =>
      proposal.kind === 'correction'
        ? await postCorrection(part, proposal)
        : await failPayout(part, proposal),
    )
  } catch (error) {
    // A retry would be refused as well. After the cause is fixed, operators can propose the change again.
    if (!isRowError(error)) throw error
    return `The database refused the proposal: ${(error as Error).message}`.slice(0, MAX_ERROR_LENGTH)
  }
}

/** The attempt was rolled back: the proposal moves behind the others. */
async function postpone(sql: Sql, id: string, error: unknown): Promise<void> {
  const reason_text = error instanceof Error ? error.message : String(error)
  await sql`
    update proposals set failed_at = clock_timestamp(),
      error = ${`An attempt failed and will be repeated: ${reason_text}`.slice(0, MAX_ERROR_LENGTH)}
    where id = ${id} and carried_out_at is null`
}

/** Posts the correction with the proposal as its subject. The balance may become negative. */
async function postCorrection(
  tx: Tx,
  { id, tenant_id, currency, amount_minor }: ConfirmedProposal<Correction>,
): Promise<null> {
  const [debit, credit] =
    amount_minor > 0 ? ['processor_clearing', 'available'] : ['available', 'processor_clearing']
  const to_post = tx`
    select ${tenant_id}::uuid as tenant_id, ${newId()}::uuid as transfer_id, 'correction' as kind,
      ${id}::uuid as subject_id, ${debit} as debit_account, ${credit} as credit_account, ${currency} as currency,
      ${Math.abs(amount_minor)}::bigint as amount_minor`
  await tx`with ${postings(tx, to_post)} select`
  return null
}

/** Fails the payout and releases its amount. If the processor may still pay it, a drift is opened at once. */
async function failPayout(
  tx: Tx,
  { tenant_id, payout_id, reason }: ConfirmedProposal<PayoutFailure>,
): Promise<string | null> {
  const forced = await forcePayoutFail(tx, { tenant_id, payout_id, reason })
  if (forced === undefined) return 'The payout has become final in the meantime.'
  if (forced.may_be_paid) await openPayoutDrift(tx, forced)
  return null
}

async function openPayoutDrift(tx: Tx, { tenant_id, id, processor, processor_reference: reference }: Payout) {
  const of = { tenant_id, resource: 'payout', resource_id: id } as const
  const { ours, since } = (await findRowSnapshot(tx, of))!
  const theirs = reference === null ? null : { ...ours, status: 'processing' }
  const processor_state = reference === null ? 'may still pay it' : 'is paying it'
  const detail = `the payout has failed here, but the processor ${processor_state}`
  // The latest possible time: `openDrift` writes nothing if a later answer of the processor is stored, and this drift
  // must be written in any case.
  const as_of = 'infinity'
  await openDrift(tx, of, { as_of, payment_id: null, state: 'differs', ours, theirs, detail, since })
  // The lookup adds the processor's present state to the drift.
  if (reference !== null)
    await storeNotifications(tx, [
      requestLookup(
        { provider: processor, livemode: await isLiveTenant(tx, tenant_id) },
        { resource: 'payout', reference, tenant_id },
        `forced:${id}`,
      ),
    ])
}
