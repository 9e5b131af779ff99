// Adopts the object of a lost request: a request with its idempotency key and other content has the row, and the
// provider has the object. The row takes what the provider holds.
import type { Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { insertingEvents } from '../events.ts'
import type { Settlement } from '../jobs/settle.ts'
import type { ObjectMarks } from '../provider-metadata.ts'
import { resourceOf, type ResourceName } from '../resources.ts'

/** An object of a provider and the row that takes its content. */
export type AdoptedObject = Pick<ObjectMarks, 'tenant_id' | 'id' | 'fingerprint'> & {
  processor_reference: string
  amount_minor: number
  currency: string
  /** The other columns of the row, by name. */
  columns: Record<string, string | number | null>
}

export type AdoptionSettlement = Settlement & { adopted: AdoptedObject }

type Money = { amount_minor: number; currency: string }
/** The money of a row before and after. */
export type AdoptedMoney = { before: Money; after: Money }

class FenceLost extends Error {}

/**
 * Settles the jobs of requests whose rows adopt objects: each in one transaction, in which `adopt` calls `take` and
 * writes what follows from the new amount, and `settle` writes the status. Returns the ids of the jobs that passed the
 * fence and whose rows could take the content; for other jobs nothing is written.
 */
export async function settleAdoptions<S extends AdoptionSettlement>(
  sql: Sql,
  resource: ResourceName,
  settlements: S[],
  settle: (tx: Tx, settlements: S[]) => Promise<Set<string>>,
  adopt: (tx: Tx, settlement: S, take: () => Promise<AdoptedMoney>) => Promise<unknown>,
): Promise<Set<string>> {
  const settled = new Set<string>()
  for (const settlement of settlements) {
    const { job_id, lease_token, adopted } = settlement
    try {
      await sql.begin(async (tx) => {
        const fenced = await tx`
          select from jobs
          where tenant_id = ${adopted.tenant_id} and id = ${job_id} and lease_token = ${lease_token} for update`
        if (fenced.count === 0) throw new FenceLost()
        await adopt(tx, settlement, async () => await takeContent(tx, resource, job_id, adopted))
        if (!(await settle(tx, [settlement])).has(job_id)) throw new FenceLost()
      })
      settled.add(job_id)
    } catch (error) {
      if (!(error instanceof FenceLost)) throw error
    }
  }
  return settled
}

/**
 * Writes the content of the object to the row, with an event, and its fingerprint to the stored key, which loses its
 * job: the lost request is a replay when it is repeated, and the request of the job is refused. Throws if the row
 * belongs to another object, or has moved other money.
 */
async function takeContent(
  tx: Tx,
  resource: ResourceName,
  job_id: string,
  { tenant_id, id, fingerprint, processor_reference, amount_minor, currency, columns }: AdoptedObject,
): Promise<AdoptedMoney> {
  const new_events = tx`
    select r.*, ${newId()}::uuid as event_id, ${`${resource}.recovered`}::text as event from r`
  const content = { ...columns, amount_minor, currency, metadata: tx.json({}) }
  const [row] = await tx<AdoptedMoney[]>`
    with r as (
      update ${tx(resourceOf(resource).table)} r set ${tx(content)}, recovered_at = clock_timestamp(),
        updated_at = clock_timestamp()
      where r.tenant_id = ${tenant_id} and r.id = ${id} and r.recovered_at is null
        and coalesce(r.processor_reference, ${processor_reference}) = ${processor_reference}
        and (r.status = 'pending' or (r.amount_minor, r.currency) = (${amount_minor}, ${currency}))
      returning r.*, old.amount_minor as amount_before, old.currency as currency_before
    ), stored_key as (
      update idempotency_keys k set fingerprint = ${fingerprint ?? ''}, job_id = null
      from r where k.tenant_id = r.tenant_id and k.key = r.idempotency_key and k.job_id = ${job_id}
    ), event as (${insertingEvents(tx, resource, new_events)})
    select jsonb_build_object('amount_minor', amount_before, 'currency', currency_before) as before,
      jsonb_build_object('amount_minor', amount_minor, 'currency', currency) as after
    from r`
  if (row === undefined) throw new FenceLost()
  return row
}
