// Fault of BullMQ on PostgreSQL (6.7): BullMQ listens to the errors of a node-postgres client only after the client
// is connected, and not while a client of its pool is in use. A connection that is lost then causes an uncaught
// error. Workaround: this error is ignored; the next operation of such a client is rejected.
import { isUnavailable } from '../db.ts'

/** Whether an uncaught error is a lost connection of node-postgres, which is safe to ignore. */
export function isUnhandledConnectionLoss(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // The stack of a socket error names no file of node-postgres, so the stack is checked only for other errors.
  const of_socket = 'syscall' in error && (error.syscall === 'read' || error.syscall === 'write')
  if (!of_socket && !/[\\/]node_modules[\\/]pg(-protocol)?[\\/]/.test(error.stack ?? '')) return false
  return error.message === 'Connection terminated unexpectedly' || isUnavailable(error)
}
