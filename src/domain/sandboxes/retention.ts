// Limits the size of sandboxes. Whatever deletes records begins another generation, so that no process keeps them in
// memory.
import type { Sql, Tx } from '#core/db.ts'

/** How long what has not changed is kept: as long as all data of tenants in test mode. */
const RETENTION = '90 days'
/** How long the processor lists events, and how long it replays the answer of a key, with a margin. */
const EVENT_RETENTION = '30 days'
const ANSWER_RETENTION = '25 hours'
/** A change that is not scheduled any more is kept for a moment only: processes that have it in memory read that. */
const CHANGE_RETENTION = '1 hour'
const PRUNE_INTERVAL = '1 day'
/** The delay before a sandbox is pruned again whose pruning has failed. */
const RETRY_DELAY = '1 hour'

/**
 * Deletes the records of ended objects, in this order, until `bytes` are free, and the answers of refused requests.
 * `roots`: the objects with which others are deleted. Deletes nothing if less than `at_least` would be free. Returns
 * how many bytes are free.
 */
export async function dropRecords(
  tx: Tx,
  tenant_id: string,
  { roots, bytes, at_least }: { roots: string[]; bytes: number; at_least: number },
): Promise<number> {
  const [freed] = await tx<{ freed: number }[]>`
    with sizes as (
      select r.root, g.nth, sum(r.bytes) as size
      from unnest(${roots}::text[]) with ordinality g(root, nth)
      join sandbox_records r on r.tenant_id = ${tenant_id} and r.root = g.root
      group by r.root, g.nth
    ), oldest as (
      select root, sum(size) over (order by nth) - size as before from sizes
    ), excess as (
      select r.position, r.bytes from oldest
      join sandbox_records r on r.tenant_id = ${tenant_id} and r.root = oldest.root
      where oldest.before < ${bytes}
      union all
      select position, bytes from sandbox_records where tenant_id = ${tenant_id} and kind = 'answer' and root is null
    ), total as (select coalesce(sum(bytes), 0)::bigint as bytes from excess),
    freed as (select bytes from total where bytes >= ${at_least}),
    dropped as (
      delete from sandbox_records r using excess, freed
      where r.tenant_id = ${tenant_id} and r.position = excess.position
    ), next as (
      update sandboxes s set generation = s.generation + 1, bytes = greatest(0, s.bytes - freed.bytes)
      from freed where s.tenant_id = ${tenant_id}
    )
    select bytes as freed from freed`
  return freed?.freed ?? 0
}

/**
 * Prunes one sandbox for which that is due. `message_days`: how long the messages of its inbox are kept. Returns its
 * tenant, or null if there is none. If it throws, the next call prunes another sandbox.
 */
export async function pruneNextSandbox(sql: Sql, message_days: number): Promise<string | null> {
  const [due] = await sql<{ tenant_id: string }[]>`
    update sandboxes set pruned_at = now() - ${PRUNE_INTERVAL}::interval + ${RETRY_DELAY}::interval
    where tenant_id = (
      select tenant_id from sandboxes where pruned_at <= now() - ${PRUNE_INTERVAL}::interval
      order by pruned_at limit 1 for update skip locked)
    returning tenant_id`
  if (due === undefined) return null
  await sql.begin(async (tx) => {
    await tx`select from sandboxes where tenant_id = ${due.tenant_id} for update`
    await tx`
      with acts as (
        delete from sandbox_acts where tenant_id = ${due.tenant_id} and done_at <= now() - ${PRUNE_INTERVAL}::interval
      )
      delete from sandbox_messages
      where tenant_id = ${due.tenant_id} and created_at <= now() - ${message_days} * interval '1 day'`
    await prune(tx, due.tenant_id)
  })
  return due.tenant_id
}

/** Deletes what is too old. Earlier versions of an object are deleted with the events that show them. */
async function prune(tx: Tx, tenant_id: string): Promise<void> {
  const is_older = (than: string) => tx`r.created_at <= now() - ${than}::interval`
  await tx`
    with unchanged as (
      select root from sandbox_records where tenant_id = ${tenant_id} and root is not null
      group by root having max(created_at) <= now() - ${RETENTION}::interval
    ), freed as (
      delete from sandbox_records r where r.tenant_id = ${tenant_id} and (
        (r.kind = 'event' and ${is_older(EVENT_RETENTION)})
        or (r.kind = 'answer' and ${is_older(ANSWER_RETENTION)})
        or (r.kind = 'change' and ${is_older(CHANGE_RETENTION)} and r.line -> 'scheduled' ->> 'due_ms' is null)
        or (r.kind = 'version' and ${is_older(EVENT_RETENTION)} and exists (
          select from sandbox_records newer
          where newer.tenant_id = r.tenant_id and newer.root = r.root and newer.object = r.object
            and newer.kind = 'version' and newer.position > r.position))
        or r.root in (select root from unchanged))
      returning r.bytes
    ), sized as (select coalesce(sum(bytes), 0)::bigint as bytes, count(*) > 0 as any_deleted from freed)
    update sandboxes s set pruned_at = now(), bytes = greatest(0, s.bytes - sized.bytes),
      generation = s.generation + sized.any_deleted::integer
    from sized where s.tenant_id = ${tenant_id}`
}
