// One operator creates a proposal, another decides it. Each step is one transaction with an audit entry.
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { Json, Sql, Tx } from '#core/db.ts'
import { openingAccounts } from '../ledger.ts'
import { appendAuditEntry, type Actor } from '../people/audit-log.ts'
import { EXPIRES_HOURS, MAX_OPEN_PROPOSALS, type Proposed } from './proposal.ts'

/** The acting operator, a user of the dashboard; `by`: the actor for the audit log. */
export type Operator = { user_id: string; email: string; by: (tenant_id: string) => Actor }

/**
 * Creates a proposal, which takes effect once another operator confirms it. Returns its id and the number of
 * its audit entry. Throws `not_found` for an unknown tenant or payout, `conflict` if the payout has ended or
 * its failure is already proposed, and `rate_limited` while too many proposals are undecided.
 */
export async function propose(
  sql: Sql,
  proposed: Proposed,
  { user_id, email, by }: Operator,
): Promise<{ id: string; seq: number }> {
  const { kind, tenant_id, reason } = proposed
  const target = targetOfProposal(proposed)
  const { payout_id, currency, amount_minor } = target
  return await sql.begin(async (tx) => {
    // Serializes new proposals, so that the count is exact.
    await tx`select pg_advisory_xact_lock(hashtext('proposals'))`
    const [tenant] = await tx`select from tenants where id = ${tenant_id}`
    if (tenant === undefined) throw new AppError('not_found', { message: 'There is no such tenant.' })
    if (payout_id !== null) await checkPayout(tx, tenant_id, payout_id)
    const id = newId()
    const { count } = await tx`
      insert into proposals (id, tenant_id, kind, payout_id, currency, amount_minor, reason, proposed_by_id,
        proposed_by, expires_at)
      select ${id}, ${tenant_id}, ${kind}, ${payout_id}::uuid, ${currency}, ${amount_minor}::bigint, ${reason},
        ${user_id}, ${email}, now() + ${EXPIRES_HOURS} * interval '1 hour'
      where (select count(*) from proposals where decision is null and expires_at > now()) < ${MAX_OPEN_PROPOSALS}`
    if (count === 0)
      throw new AppError('rate_limited', {
        message: `${MAX_OPEN_PROPOSALS} proposals wait for a decision: decide or cancel some first.`,
      })
    if (currency !== null)
      await openingAccounts(tx, tx`select ${tenant_id}::uuid as tenant_id, ${currency} as currency`)
    const details = { kind, reason, ...detailsOf(target) }
    return { id, seq: await appendEntry(tx, by(tenant_id), 'proposals.propose', id, details) }
  })
}

async function checkPayout(tx: Tx, tenant_id: string, payout_id: string): Promise<void> {
  const [payout] = await tx<{ status: string; open: boolean; proposed: boolean }[]>`
    select status, open, exists (
      select from proposals p where p.tenant_id = o.tenant_id and p.payout_id = o.id and p.carried_out_at is null
        and (p.decision = 'confirmed' or (p.decision is null and p.expires_at > now()))) as proposed
    from payouts o where o.tenant_id = ${tenant_id} and o.id = ${payout_id}`
  if (payout === undefined) throw new AppError('not_found', { message: 'There is no such payout.' })
  if (!payout.open)
    throw new AppError('conflict', {
      message: `The failure of the payout cannot be proposed: the payout is ${payout.status}.`,
    })
  if (payout.proposed)
    throw new AppError('conflict', { message: 'The failure of this payout is already proposed.' })
}

const ACTIONS = {
  confirmed: 'proposals.confirm',
  rejected: 'proposals.reject',
  canceled: 'proposals.cancel',
} as const

/**
 * Confirms or rejects a proposal. The operator who created it can only withdraw it, which cancels it. Returns the
 * number of the audit entry. Throws `not_found` for an unknown proposal, `forbidden` if its creator confirms it, and
 * `conflict` if it is decided or has expired.
 */
export async function decideProposal(
  sql: Sql,
  id: string,
  requested: 'confirmed' | 'rejected',
  { user_id, email, by }: Operator,
): Promise<number> {
  return await sql.begin(async (tx) => {
    const [proposal] = await tx<ProposalRow[]>`
      select tenant_id, kind, payout_id, currency, amount_minor, proposed_by_id, proposed_by, decision,
        expires_at <= now() as expired
      from proposals where id = ${id} for update`
    if (proposal === undefined) throw new AppError('not_found', { message: 'There is no such proposal.' })
    const { tenant_id, kind, proposed_by, decision, expired } = proposal
    const own = proposal.proposed_by_id === user_id
    if (decision !== null) throw new AppError('conflict', { message: `The proposal is already ${decision}.` })
    if (expired) throw new AppError('conflict', { message: 'The proposal has expired.' })
    if (own && requested === 'confirmed')
      throw new AppError('forbidden', { message: 'Another operator must confirm your proposal.' })
    const becomes = own ? 'canceled' : requested
    await tx`
      update proposals set decision = ${becomes}, decided_by_id = ${user_id}, decided_by = ${email}, decided_at = now()
      where id = ${id}`
    const details = { kind, proposed_by, ...detailsOf(proposal) }
    return await appendEntry(tx, by(tenant_id), ACTIONS[becomes], id, details)
  })
}

/** The target of a proposal: a payout, or a balance. */
type ProposalTarget = { payout_id: string | null; currency: string | null; amount_minor: number | null }
type ProposalRow = ProposalTarget & {
  tenant_id: string
  kind: Proposed['kind']
  proposed_by_id: string
  proposed_by: string
  decision: string | null
  expired: boolean
}

function targetOfProposal(proposed: Proposed): ProposalTarget {
  if (proposed.kind === 'fail_payout')
    return { payout_id: proposed.payout_id, currency: null, amount_minor: null }
  const { currency, amount_minor } = proposed
  return { payout_id: null, currency: currency.toUpperCase(), amount_minor }
}

/** The details of a proposal for the audit log, without fields that do not apply. */
function detailsOf(target: ProposalTarget): Record<string, Json> {
  const { payout_id, currency, amount_minor } = target
  return payout_id === null ? { currency, amount_minor } : { payout_id }
}

async function appendEntry(tx: Tx, by: Actor, action: string, id: string, details: Record<string, Json>) {
  return await appendAuditEntry(tx, by, { action, subject: 'proposal', subject_id: id, details })
}
