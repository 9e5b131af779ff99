// The transactions of calls to sandboxes: those of one tenant one after another, on few connections.
import type { Tx } from '#core/db.ts'
import { createGates, type Gate } from '#core/gate.ts'
import type { Log } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { SandboxInUse } from '#domain/sandboxes/records.ts'
import { NoAnswer } from '#providers/http.ts'
import { NotStarted } from '#providers/permit.ts'
import type { SandboxCall } from './call.ts'

/** A call waits until the calls of the same tenant in this process, and then those in others, have ended. */
export const QUEUE = {
  waiting: 1_000,
  wait_ms: 10_000,
  refuse: () => new NotStarted('too many calls wait for the sandbox of this tenant'),
}
const STATEMENT_TIMEOUT_MS = 10_000
/** Calls of test mode take no connections from live jobs. */
const CONNECTIONS = 2

/** `pass`: each attempt waits for this gate. `onCommit`: called before the next call of the tenant. */
type TransactionOptions<T> = { pass: Gate; onCommit: (result: T) => void }

const DIRECTLY: TransactionOptions<unknown> = { pass: (attempt) => attempt(), onCommit: () => {} }

type Transactions = {
  /** Does `work` in a transaction. Repeats it while another process has locked the sandbox, until the call ends. */
  begin: <T>(
    tenant_id: string,
    call: SandboxCall,
    work: (tx: Tx) => Promise<T>,
    options?: TransactionOptions<T>,
  ) => Promise<T>
  close: () => Promise<void>
}

export function openTransactions(database_url: string, log: Log): Transactions {
  const sql = connectDatabase(database_url, {
    max: CONNECTIONS,
    application_name: 'sluice-worker-sandbox',
    pool_name: 'sandbox',
    statement_timeout_ms: STATEMENT_TIMEOUT_MS,
  })
  const serialize = createGates({ running: 1, queue: QUEUE })

  /** `in_use`: another process has locked the sandbox. */
  async function beginOnce<T>(
    tenant_id: string,
    call: SandboxCall,
    work: (tx: Tx) => Promise<T>,
  ): Promise<{ result: T } | 'in_use'> {
    await call.admit()
    let commits = false
    try {
      return await sql.begin(async (tx) => {
        // The wait for a connection may have taken too long.
        if (call.signal.aborted) throw new NotStarted()
        const result = await work(tx)
        commits = true
        return { result }
      })
    } catch (error) {
      if (error instanceof SandboxInUse) return 'in_use'
      if (error instanceof NotStarted) throw error
      log.warn({ err: error, tenant_id }, 'a call to the sandbox of a tenant failed')
      const reason = `the sandbox failed: ${error instanceof Error ? error.message : String(error)}`
      throw new NoAnswer(reason, { sent: commits })
    }
  }

  return {
    begin: async (tenant_id, call, work, { pass, onCommit } = DIRECTLY) =>
      await serialize(
        tenant_id,
        async () => {
          for (;;) {
            const done = await pass(() => beginOnce(tenant_id, call, work), call)
            if (done === 'in_use') continue
            onCommit(done.result)
            return done.result
          }
        },
        call,
      ),
    close: () => sql.end({ timeout: 5 }),
  }
}
