// The records of a sandbox: everything that the payment processor of a tenant in test mode would know, in the order in
// which it happened.
import { databaseCode, type Sql, type Tx } from '#core/db.ts'

/** A record without its content. `object`, `root`: null for the answer of a request that was refused. */
export type SandboxRecord = {
  kind: 'version' | 'event' | 'answer' | 'change'
  key: string
  object: string | null
  root: string | null
}

/** `line`: the content as JSON text. A record replaces the earlier one with the same kind and key. */
export type NewRecord = SandboxRecord & { line: string }

/** The format of the records that this version writes. A version reads all formats up to its own. */
export const RECORD_FORMAT = 1

/** The state of a locked sandbox. */
export type SandboxState = {
  /** The highest format of its records. */
  format: number
  last_position: number
  /** What is in memory can be used only for the same generation and switch of the database. */
  generation: string
  clock_offset_ms: number
  bytes: number
  /** When the next scheduled change is due, by the database's clock in unix milliseconds; null: none is scheduled. */
  due_ms: number | null
  /** The database's clock, unix milliseconds. */
  now_ms: number
}

/** Another transaction has locked the sandbox. */
export class SandboxInUse extends Error {
  override name = 'SandboxInUse'
}

/** The number of records that one statement reads, and the caller replays at once. */
const READ_BATCH_SIZE = 200
/** How long a transaction waits for a lock with its connection, which other sandboxes need, too. */
const LOCK_TIMEOUT = '250ms'
const LOCK_NOT_AVAILABLE = '55P03'

/**
 * Locks the sandbox of a tenant until the end of the transaction, and creates it if there is none. Throws SandboxInUse
 * if another transaction keeps the lock: repeat the transaction then. Throws another error if the tenant is live.
 */
export async function lockSandbox(tx: Tx, tenant_id: string): Promise<SandboxState> {
  const existing = await findLocked(tx, tenant_id)
  if (existing !== undefined) return existing
  await tx`
    insert into sandboxes (tenant_id) select id from tenants where id = ${tenant_id} and mode = 'test'
    on conflict do nothing`
  const created = await findLocked(tx, tenant_id)
  if (created === undefined) throw new Error(`the tenant ${tenant_id} is not in test mode: it has no sandbox`)
  return created
}

async function findLocked(tx: Tx, tenant_id: string): Promise<SandboxState | undefined> {
  const limitLockWaits = (limit: string) => tx`select set_config('lock_timeout', ${limit}, true)`
  // A database that has gone back in time may have other records at the same positions.
  const lock = tx<SandboxState[]>`
    select format, last_position, clock_offset_ms, bytes,
      generation || '/' || coalesce((select last_switch from lineage), 0) as generation,
      round(extract(epoch from due_at) * 1000)::bigint as due_ms,
      floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
    from sandboxes where tenant_id = ${tenant_id} for update`
  try {
    const [, [state]] = await Promise.all([limitLockWaits(LOCK_TIMEOUT), lock, limitLockWaits('0')])
    return state
  } catch (error) {
    if (databaseCode(error) !== LOCK_NOT_AVAILABLE) throw error
    throw new SandboxInUse('another transaction has locked the sandbox', { cause: error })
  }
}

/** Locks the sandbox if one of its changes is due. Returns false if not, or while another transaction has locked it. */
export async function lockDueSandbox(tx: Tx, tenant_id: string): Promise<boolean> {
  const rows = await tx`
    select from sandboxes where tenant_id = ${tenant_id} and due_at <= clock_timestamp() for update skip locked`
  return rows.length > 0
}

/** Calls `read` with the line of each record after this position, in order, and `pause` before each further batch. */
export async function readRecords(
  tx: Tx,
  tenant_id: string,
  { after, until }: { after: number; until: number },
  read: (line: unknown) => void,
  pause: (batch_bytes: number) => Promise<void>,
): Promise<void> {
  let position = after
  while (position < until) {
    const rows = await tx<{ position: number; line: unknown; bytes: number }[]>`
      select position, line, bytes from sandbox_records
      where tenant_id = ${tenant_id} and position > ${position} order by position limit ${READ_BATCH_SIZE}`
    for (const { line } of rows) read(line)
    if (rows.length < READ_BATCH_SIZE) return
    position = rows.at(-1)!.position
    await pause(rows.reduce((sum, { bytes }) => sum + bytes, 0))
  }
}

/** Writes records after the last one, and the rest of the state. Returns the size of all records. */
export async function writeRecords(
  tx: Tx,
  tenant_id: string,
  records: NewRecord[],
  {
    last_position,
    clock_offset_ms,
    due_ms,
  }: {
    last_position: number
    clock_offset_ms: number
    /** When the next scheduled change is due, by the database's clock in unix milliseconds; null: none is scheduled. */
    due_ms: number | null
  },
): Promise<number> {
  const rows = records.map((record, nth) => ({
    ...record,
    position: last_position + nth + 1,
    bytes: Buffer.byteLength(record.line),
  }))
  const [state] = await tx<{ bytes: number }[]>`
    with input as (
      select * from jsonb_to_recordset(${tx.json(rows)}) as r(
        position bigint, kind text, key text, object text, root text, line text, bytes integer)
    ), written as (
      insert into sandbox_records as r (tenant_id, position, kind, key, object, root, line, bytes)
      select ${tenant_id}, position, kind, key, object, root, line::json, bytes from input order by position
      on conflict (tenant_id, kind, key) do update set position = excluded.position, object = excluded.object,
        root = excluded.root, line = excluded.line, bytes = excluded.bytes, created_at = excluded.created_at
      returning new.bytes - coalesce(old.bytes, 0) as added
    )
    update sandboxes set bytes = greatest(0, bytes + coalesce((select sum(added) from written), 0)),
      format = ${RECORD_FORMAT}, last_position = ${last_position + rows.length}, clock_offset_ms = ${clock_offset_ms},
      due_at = ${due_ms === null ? null : tx`to_timestamp(${due_ms}::float8 / 1000)`},
      updated_at = clock_timestamp()
    where tenant_id = ${tenant_id}
    returning bytes`
  return state!.bytes
}

/** The clock of a sandbox. `next_due_at`: the next scheduled change, by the clock of the tenant; null: none. */
export type SandboxClockState = { offset_ms: number; next_due_at: string | null; is_due: boolean }

/** Undefined: the tenant has no sandbox yet. */
export async function findSandboxClock(sql: Sql, tenant_id: string): Promise<SandboxClockState | undefined> {
  const [found] = await sql<SandboxClockState[]>`
    select clock_offset_ms as offset_ms, due_at + clock_offset_ms * interval '1 millisecond' as next_due_at,
      coalesce(due_at <= clock_timestamp(), false) as is_due
    from sandboxes where tenant_id = ${tenant_id}`
  return found
}

/** The tenants whose sandboxes have a change that is due, the longest overdue first. */
export async function findDueSandboxes(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`
    select tenant_id from sandboxes where due_at <= clock_timestamp() order by due_at limit ${limit}`
  return rows.map(({ tenant_id }) => tenant_id)
}

/** Postpones the changes of a sandbox that cannot be performed now, so that other sandboxes do not wait for it. */
export async function postponeChanges(sql: Sql, tenant_id: string, by_s: number): Promise<void> {
  await sql`
    update sandboxes set due_at = clock_timestamp() + ${by_s} * interval '1 second'
    where tenant_id = ${tenant_id} and due_at <= clock_timestamp()`
}
