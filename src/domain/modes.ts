// The modes: live, and test. Each tenant has one, which never changes, so processes remember it.
import { createBatcher } from '#core/batch.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'

export type Mode = 'live' | 'test'
export const MODES = ['live', 'test'] as const satisfies Mode[]

export type ModeCache = {
  /**
   * The mode of a tenant, at once if this process has used it lately. Requests at the same time share a statement. A
   * tenant without a row has no keys, so nothing of it is a test.
   */
  modeOf(tenant_id: string): Mode | Promise<Mode>
  /** The mode of a tenant that this process has used lately; undefined if it has not. */
  remembered(tenant_id: string): Mode | undefined
}

/** About 1 MiB. The tenants that are not remembered cost a lookup by key. */
const MAX_REMEMBERED_TENANTS = 10_000

export function createModeCache(sql: Sql, max_remembered = MAX_REMEMBERED_TENANTS): ModeCache {
  /** By tenant, the one that was used last at the end. */
  const modes = new Map<string, Mode>()
  const find = createBatcher<string, Mode | undefined>('find_modes', async (ids) => {
    const found = await findModes(sql, ids)
    return ids.map((id) => found.get(id))
  })

  function remember(tenant_id: string, mode: Mode): void {
    modes.delete(tenant_id)
    modes.set(tenant_id, mode)
    const [oldest] = modes.keys()
    if (modes.size > max_remembered) modes.delete(oldest!)
  }

  async function lookUp(tenant_id: string): Promise<Mode> {
    const mode = await find(tenant_id)
    if (mode !== undefined) remember(tenant_id, mode)
    return mode ?? 'live'
  }

  return {
    modeOf(tenant_id) {
      if (tenant_id === SYSTEM_TENANT_ID) return 'live'
      const mode = modes.get(tenant_id)
      if (mode === undefined) return lookUp(tenant_id)
      remember(tenant_id, mode)
      return mode
    },
    remembered: (tenant_id) => modes.get(tenant_id),
  }
}

/** The modes of tenants, by id. A tenant without a row is omitted. */
export async function findModes(sql: Sql | Tx, ids: readonly string[]): Promise<Map<string, Mode>> {
  const rows = await sql<{ id: string; mode: Mode }[]>`
    select id, mode from tenants where id = any(${[...ids]}::uuid[])`
  return new Map(rows.map(({ id, mode }) => [id, mode]))
}

/** Whether a tenant is live. Only for rare work: see `createModeCache`. */
export async function isLiveTenant(sql: Sql | Tx, id: string): Promise<boolean> {
  return (await findModes(sql, [id])).get(id) !== 'test'
}

/**
 * Whether a tenant is of this mode. Looked up for each row, so only for statements that read few rows, and that no
 * request or job waits for: the `offset` keeps PostgreSQL from a join that was planned for few tenants.
 */
export function isOfMode(sql: Sql | Tx, tenant_id: Fragment, livemode: boolean): Fragment {
  const is_test = sql`exists (select from tenants t where t.id = ${tenant_id} and t.mode = 'test' offset 0)`
  return livemode ? sql`not ${is_test}` : is_test
}

/**
 * Whether the job `job` is of live mode: its tenant is. For the figures of operators. `reads_many`: the statement reads
 * so many jobs that the ids of all tenants in test mode are read once, by their index, and not one by one.
 */
export function isLiveJob(
  sql: Sql | Tx,
  job: 'j' | 'jobs',
  { reads_many = false }: { reads_many?: boolean } = {},
): Fragment {
  const tenant_id = sql(`${job}.tenant_id`)
  return reads_many
    ? sql`${tenant_id} not in (select t.id from tenants t where t.twin_id is not null)`
    : isOfMode(sql, sql`${tenant_id}`, true)
}
