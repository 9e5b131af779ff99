// Proposals, which one operator creates and another confirms: schemas and reads.
import { z } from 'zod'
import type { Fragment, Sql } from '#core/db.ts'
import { currencyCode, MAX_AMOUNT_MINOR } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { reasonText } from '../jobs/reason.ts'
import { tenantNameColumn } from '../tenant-names.ts'

/** An undecided proposal expires after this time. */
export const EXPIRES_HOURS = 72
/** The maximum number of undecided proposals. */
export const MAX_OPEN_PROPOSALS = 100

const PROPOSAL_STATES = ['open', 'confirmed', 'done', 'refused', 'rejected', 'canceled', 'expired'] as const
export const proposalState = z.enum(PROPOSAL_STATES)

const tenant_id = z.uuid().toLowerCase()
const amount = z
  .int()
  .min(-MAX_AMOUNT_MINOR)
  .max(MAX_AMOUNT_MINOR)
  .refine((minor) => minor !== 0, { message: 'The amount of a correction must not be 0.' })

/**
 * The contents of a proposal: to correct a balance by an amount, or to fail a payout regardless of its state at the
 * processor.
 */
export const proposedSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('correction'),
    tenant_id,
    currency: currencyCode,
    amount_minor: amount,
    reason: reasonText,
  }),
  z.strictObject({
    kind: z.literal('fail_payout'),
    tenant_id,
    payout_id: z.uuid().toLowerCase(),
    reason: reasonText,
  }),
])
export type Proposed = z.output<typeof proposedSchema>

/**
 * A proposal in responses. `open`: it waits for another operator. `confirmed`: a worker will carry it out. `done`: it
 * was carried out. `refused`: it was no longer possible, or the database refused it. `canceled`: the operator who
 * created it withdrew it. `error`: the reason why the last attempt to carry it out failed; it is retried.
 */
export const proposalSchema = z.object({
  id: z.uuid(),
  kind: z.enum(['correction', 'fail_payout']),
  state: proposalState,
  tenant_id: z.uuid(),
  /** Its name for operators: see `tenantName`. */
  tenant: z.string(),
  payout_id: z.uuid().nullable(),
  currency: z.string().nullable(),
  /** Of a correction: the change of the balance. Of a payout: its amount. */
  amount_minor: z.int().nullable(),
  reason: z.string(),
  proposed_by: z.string(),
  proposed_by_id: z.uuid(),
  decided_by: z.string().nullable(),
  decided_at: timestamp.nullable(),
  carried_out_at: timestamp.nullable(),
  refused: z.string().nullable(),
  error: z.string().nullable(),
  created_at: timestamp,
  expires_at: timestamp,
})
export type Proposal = z.output<typeof proposalSchema>

export type ProposalFilters = { state?: Proposal['state']; before?: string | null; limit: number }

/** Proposals, newest first. `before` (exclusive): the id of a proposal. */
export async function listProposals(
  sql: Sql,
  { state, before = null, limit }: ProposalFilters,
): Promise<Proposal[]> {
  return await sql<Proposal[]>`
    select * from (${proposalRows(sql)}) p
    where (${before}::uuid is null
        or (p.created_at, p.id) < (select b.created_at, b.id from proposals b where b.id = ${before}))
      and p.state = coalesce(${state ?? null}, p.state)
    order by p.created_at desc, p.id desc limit ${limit}`
}

/** A proposal, or undefined. */
export async function findProposal(sql: Sql, id: string): Promise<Proposal | undefined> {
  const [proposal] = await sql<Proposal[]>`select * from (${proposalRows(sql)}) p where p.id = ${id}`
  return proposal
}

function proposalRows(sql: Sql): Fragment {
  return sql`
    select p.id, p.kind, case
        when p.decision is null then case when p.expires_at <= now() then 'expired' else 'open' end
        when p.decision <> 'confirmed' then p.decision
        when p.carried_out_at is null then 'confirmed'
        when p.refused is not null then 'refused' else 'done' end as state,
      p.tenant_id, ${tenantNameColumn(sql)} as tenant, p.payout_id, upper(coalesce(p.currency, o.currency)) as currency,
      coalesce(p.amount_minor, o.amount_minor) as amount_minor, p.reason, p.proposed_by, p.proposed_by_id, p.decided_by,
      p.decided_at, p.carried_out_at, p.refused, p.error, p.created_at, p.expires_at
    from proposals p
    join tenants t on t.id = p.tenant_id
    left join payouts o on o.tenant_id = p.tenant_id and o.id = p.payout_id`
}
