// Duplicates at a provider: a call seemed to have no effect and was repeated with a new key, and both calls created an
// object. A duplicate that can be undone is canceled.
import { newId } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { authorizePayment, cancelDuplicatePayment } from '#jobs/payments.ts'
import { cancelDuplicateVerification, createVerification } from '#jobs/verifications.ts'
import { finishing, fencing, type Settlement } from '../jobs/settle.ts'
import { assigning } from '../notifications/settle.ts'

/**
 * The resources whose duplicates can be canceled: the job whose call creates the object, the job that cancels
 * it, and the cancelable statuses at the provider.
 */
const CANCELABLE = {
  payment: {
    created_by: authorizePayment,
    canceled_by: cancelDuplicatePayment,
    statuses: ['requires_action', 'processing', 'authorized'],
  },
  kyc: {
    created_by: createVerification,
    canceled_by: cancelDuplicateVerification,
    statuses: ['requires_input'],
  },
}
export type CancelableResource = keyof typeof CANCELABLE

/** Whether a duplicate in this status can be canceled at the provider: nothing irreversible has happened. */
export function isCancelable(resource: CancelableResource, status: string): boolean {
  return CANCELABLE[resource].statuses.includes(status)
}

export type Duplicate = { tenant_id: string; id: string; reference: string }
export type DuplicateSettlement = Settlement & Duplicate & { notification_id: string | null }

/**
 * Whether a call that creates the row was repeated with a new key, so that the provider may have a duplicate.
 * `under_way` true: only calls that are not settled yet count.
 */
export async function wasCreatedTwice(
  sql: Sql,
  resource: CancelableResource,
  { tenant_id, id }: Pick<Duplicate, 'tenant_id' | 'id'>,
  { under_way = false } = {},
): Promise<boolean> {
  const { operation } = CANCELABLE[resource].created_by.call
  const [row] = await sql<{ created_twice: boolean }[]>`
    select exists (
      select from all_jobs j where j.tenant_id = ${tenant_id} and j.resource_id = ${id}
        and j.operation = ${operation} and j.generation > 1
        ${under_way ? sql`and j.finished_at is null` : sql``}) as created_twice`
  return row!.created_twice
}

/**
 * Returns the settling step of jobs that found duplicates of a resource. For each duplicate, the step enqueues one job
 * that cancels the duplicate. The step returns the ids of the jobs that passed the fence.
 */
export function cancelingDuplicates(
  resource: CancelableResource,
): (sql: Sql, settlements: DuplicateSettlement[]) => Promise<Set<string>> {
  const { canceled_by } = CANCELABLE[resource]
  return async (sql, settlements) => {
    const items = settlements.map(({ tenant_id, id, reference, notification_id, ...settlement }) => ({
      ...settlement,
      change: { tenant_id, [`${resource}_id`]: id, reference, notification_id, cancel_job_id: newId() },
    }))
    const row_id = sql(`${resource}_id`)
    const request = requestJson(sql, canceled_by, { reference: sql`reference` })
    const requested = sql`
      select cancel_job_id as job_id, tenant_id, ${row_id} as resource_id,
        jsonb_build_object(${`${resource}_id`}::text, ${row_id}) as payload, false as will_wake,
        'duplicate:' || reference as dedupe_key, request_id, ${request} as request
      from updates`
    const rows = await sql<{ id: string }[]>`
      with ${fencing(sql, items)},
      updates as (
        select fenced.job_id, fenced.request_id, c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
          tenant_id uuid, ${row_id} uuid, reference text, notification_id uuid, cancel_job_id uuid)
      ),
      canceling as (${enqueuing(sql, canceled_by, requested)} on conflict do nothing),
      ${assigning(sql, resource)},
      ${finishing(sql, settlements)}
      select id from job`
    return new Set(rows.map(({ id }) => id))
  }
}
