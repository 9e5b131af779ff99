// Transactions that wait for an answer of the server: to their begin, to a statement or to their end. The driver sends
// these statements itself, so the pool does not see them.
import type { Sql, Tx } from '../db.ts'
import { watchStatement, type Transaction } from './traffic.ts'

type TransactionWork = (tx: Tx) => unknown
/** `begin` and `savepoint` of the driver; the last argument is the work. */
export type DriverBegin = (...args: unknown[]) => Promise<unknown>

const transactions = new WeakMap<Tx, Transaction>()

/**
 * Begins a transaction of a driver and adds it to `open` until its end. `limit_ms`: how long an answer may take, unless
 * the transaction sets another limit with `limitAnswers`.
 */
export async function beginTransaction(
  driver: Sql,
  args: unknown[],
  { open, limit_ms }: { open: Set<Transaction>; limit_ms: number },
): Promise<unknown> {
  const transaction: Transaction = { limit_ms, answers_due: 0, checks: 0 }
  open.add(transaction)
  try {
    return await runBetweenAnswers(Reflect.get(driver, 'begin') as DriverBegin, args, transaction)
  } finally {
    open.delete(transaction)
  }
}

/** Sets how long each later answer in this transaction may take, because it raises the limits of the server. */
export function limitAnswers(tx: Tx, limit_ms: number): void {
  const transaction = transactions.get(tx)
  if (transaction !== undefined) transaction.limit_ms = limit_ms
}

/** Calls `begin` with its arguments. The transaction waits for the server, except while the work runs. */
async function runBetweenAnswers(
  begin: DriverBegin,
  args: unknown[],
  transaction: Transaction,
): Promise<unknown> {
  const work = args.at(-1) as TransactionWork
  expectAnswer(transaction)
  try {
    return await begin(...args.slice(0, -1), async (tx: Tx) => {
      takeAnswer(transaction)
      try {
        return await work(tracked(tx, transaction))
      } finally {
        expectAnswer(transaction)
      }
    })
  } finally {
    takeAnswer(transaction)
  }
}

function tracked(tx: Tx, transaction: Transaction): Tx {
  const watched = <T>(result: T): T => {
    if (result instanceof Promise)
      watchStatement(result, () => {
        expectAnswer(transaction)
        return () => takeAnswer(transaction)
      })
    return result
  }
  const members = {
    unsafe: (...args: Parameters<Tx['unsafe']>) => watched(tx.unsafe(...args)),
    savepoint: async (...args: unknown[]) =>
      await runBetweenAnswers(Reflect.get(tx, 'savepoint') as DriverBegin, args, transaction),
  }
  const proxy = new Proxy(tx, {
    apply: (_target, _this, args: unknown[]) => watched(Reflect.apply(tx, undefined, args) as unknown),
    get: (_target, name) => Reflect.get(Object.hasOwn(members, name) ? members : tx, name) as unknown,
  })
  transactions.set(proxy, transaction)
  return proxy
}

function expectAnswer(transaction: Transaction): void {
  transaction.answers_due += 1
}

function takeAnswer(transaction: Transaction): void {
  transaction.answers_due -= 1
  transaction.checks = 0
}
