// Helpers for proposals: two operators agree, and a worker carries the proposal out.
import { expect } from 'vitest'
import { decideProposal, propose, type Operator } from '#domain/proposals/decide.ts'
import { findProposal, type Proposed } from '#domain/proposals/proposal.ts'
import { eventually } from './payments.ts'
import { createPerson } from './people.ts'
import type { World } from './world.ts'

/** Creates an operator of the dashboard. */
async function operator(world: World): Promise<Operator> {
  const { user_id, email } = await createPerson(world, { is_operator: true })
  return {
    user_id,
    email,
    by: (tenant_id) => ({ tenant_id, actor_id: user_id, request_id: null, address: null }),
  }
}

/** One operator proposes, and another operator confirms. Returns the proposal's id. */
export async function agree(world: World, proposed: Proposed): Promise<string> {
  const { id } = await propose(world.sql, proposed, await operator(world))
  await decideProposal(world.sql, id, 'confirmed', await operator(world))
  return id
}

/** Two operators agree. Waits until the proposal is carried out. */
export async function agreed(world: World, proposed: Proposed): Promise<void> {
  const id = await agree(world, proposed)
  await eventually(async () => expect(await findProposal(world.sql, id)).toMatchObject({ state: 'done' }))
}

/** Adds the missing proposals of corrections that tests have posted without a proposal. */
export async function confirmAllCorrections(world: World): Promise<void> {
  const [one, other] = [await operator(world), await operator(world)]
  await world.sql`
    insert into proposals (id, tenant_id, kind, currency, amount_minor, reason, proposed_by_id, proposed_by, expires_at,
      decision, decided_by_id, decided_by, decided_at, carried_out_at)
    select t.subject_id, t.tenant_id, 'correction', t.currency,
      case t.credit_account when 'available' then t.amount_minor else -t.amount_minor end, 'posted by a test',
      ${one.user_id}, ${one.email}, now() + interval '1 hour', 'confirmed', ${other.user_id}, ${other.email}, now(), now()
    from ledger_transfers t
    where t.kind = 'correction' and not exists (select from proposals p where p.id = t.subject_id)`
}
