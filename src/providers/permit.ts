// The permit for a job's provider calls: it is checked at the moment when a request is about to be sent.
import { AsyncLocalStorage } from 'node:async_hooks'

export type Permit = {
  /** Aborted when the answer is no longer needed, because the lease is lost or the worker stops. */
  signal: AbortSignal
  /** Calls of one lane share sockets that other lanes do not use. */
  lane: string
  /** How long a request may take; null: as long as the client allows. */
  deadline_ms: number | null
  /** Whether a call may start now, without asking again. */
  valid(): boolean
  /** Asks the database again. False when no call of the job may start any more. */
  renew(): Promise<boolean>
  /** Called when the first byte of a request is about to be sent. */
  used(): void
}

/** The permit of the job that is being performed. Calls outside of any job need none. */
export const permits = new AsyncLocalStorage<Permit>()

/** A call was no longer permitted when it could have been sent. Not one byte of it was sent. */
export class NotStarted extends Error {
  override name = 'NotStarted'

  constructor(reason = 'the queue is paused, the lease lost or the worker stopping') {
    super(reason)
  }
}

const ALWAYS: Permit = {
  signal: new AbortController().signal,
  lane: '',
  deadline_ms: null,
  valid: () => true,
  renew: async () => true,
  used: () => {},
}

/** The permit of the job that this code runs for. */
export function currentPermit(): Permit {
  return permits.getStore() ?? ALWAYS
}
