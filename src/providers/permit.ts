// The permit of a job's calls to providers: asked for at the moment when a request is about to leave.
import { AsyncLocalStorage } from 'node:async_hooks'

export type Permit = {
  /** Aborted: the answer is of no more use, as its job is no longer ours or the worker stops. */
  signal: AbortSignal
  /** Calls of one lane share sockets, and take none from those of another. */
  lane: string
  /** How long a request may take; null: as long as the client allows. */
  deadline_ms: number | null
  /** Whether a call may start at this moment, as far as is known. */
  valid(): boolean
  /** Asks again. False: no call may start any more. */
  renew(): Promise<boolean>
  /** The first byte of a request is about to leave. */
  used(): void
}

/** Of the job that is performed; calls outside of any job need none. */
export const permits = new AsyncLocalStorage<Permit>()

/** A call that was not permitted any more when its turn came: not one byte of it has left. */
export class NotStarted extends Error {
  override name = 'NotStarted'

  constructor() {
    super('the queue is paused, the lease lost or the worker stopping')
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

/** The permit of what runs now. */
export function currentPermit(): Permit {
  return permits.getStore() ?? ALWAYS
}
