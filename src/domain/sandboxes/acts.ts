// Acts of people in a sandbox: as the buyer, as a bank, as a verified person, or as the recipient of an SMS. The
// dashboard requests an act, and a worker carries it out.
import type { Sql, Tx } from '#core/db.ts'
import type { SealingContext, Vault } from '#core/secrets.ts'

export type SandboxAct = {
  id: string
  /**
   * `reference`: the provider's id of the payment, payout or verification session, or the id of the SMS in the inbox.
   */
  act:
    | 'pay'
    | 'fail_payment'
    | 'open_dispute'
    | 'fail_payout'
    | 'answer_sms'
    | 'pass_verification'
    | 'fail_verification'
  reference: string
}

/** Requests an act. `text`: of the answer to an SMS; null for any other act. */
export async function requestSandboxAct(
  sql: Sql | Tx,
  vault: Vault,
  tenant_id: string,
  { id, act, reference, text }: SandboxAct & { text: string | null },
): Promise<void> {
  const content = text === null ? null : vault.seal(text, contentContext(tenant_id, id))
  await sql`
    insert into sandbox_acts (tenant_id, id, act, reference, content)
    values (${tenant_id}, ${id}, ${act}, ${reference}, ${content})`
}

/** Whether an act has been carried out, or why it was refused. Undefined: it waits for a worker. */
export async function findActEnd(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<{ refused: string | null } | undefined> {
  const [end] = await sql<{ refused: string | null }[]>`
    select refused from sandbox_acts where tenant_id = ${tenant_id} and id = ${id} and done_at is not null`
  return end
}

/**
 * The oldest open act of each of up to `max_tenants` random tenants, so that an act that cannot begin does not block
 * other tenants.
 */
export async function findOpenActs(
  sql: Sql | Tx,
  max_tenants: number,
): Promise<{ tenant_id: string; id: string }[]> {
  return await sql<{ tenant_id: string; id: string }[]>`
    select tenant_id, id from (
      select distinct on (tenant_id) tenant_id, id from sandbox_acts where done_at is null
      order by tenant_id, created_at
    ) oldest
    order by random() limit ${max_tenants}`
}

/**
 * An act that nobody has carried out yet, locked until the end of the transaction. Undefined also while another
 * transaction has locked it.
 */
export async function lockOpenAct(
  tx: Tx,
  vault: Vault,
  tenant_id: string,
  id: string,
): Promise<(SandboxAct & { text: string }) | undefined> {
  const [row] = await tx<(SandboxAct & { content: string | null })[]>`
    select id, act, reference, content from sandbox_acts
    where tenant_id = ${tenant_id} and id = ${id} and done_at is null for update skip locked`
  if (row === undefined) return undefined
  const { content, ...act } = row
  return { ...act, text: content === null ? '' : vault.open(content, contentContext(tenant_id, id)) }
}

/** Ends an act. `refused`: why nothing was done; null: it was carried out. */
export async function endAct(
  sql: Sql | Tx,
  tenant_id: string,
  id: string,
  refused: string | null,
): Promise<void> {
  await sql`
    update sandbox_acts set done_at = clock_timestamp(), refused = ${refused?.slice(0, 500) ?? null}
    where tenant_id = ${tenant_id} and id = ${id} and done_at is null`
}

function contentContext(tenant_id: string, id: string): SealingContext {
  return { tenant_id, table: 'sandbox_acts', row: id, column: 'content' }
}
