// The permit for a job's provider calls: checked right before a request is sent.
import { AsyncLocalStorage } from 'node:async_hooks'

export type Permit = {
  /** Aborts when the answer is no longer needed: the lease is lost or the worker stops. */
  signal: AbortSignal
  /** The lane of the call. Each lane has its own sockets. */
  lane: string
  /** The limit of a request; null: the limit of the client. */
  deadline_ms: number | null
  /** Whether a call may start now. Does not query the database. */
  valid(): boolean
  /**
   * Queries the database, and renews the permit. False if no call of the job may start any more. Rejects if the
   * database does not answer.
   */
  renew(): Promise<boolean>
  /** Called right before the first byte of a request is sent. */
  used(): void
}

/** The permit of the current job. Calls outside of a job need none. */
export const permits = new AsyncLocalStorage<Permit>()

/**
 * The permit did not allow a call at the moment at which it could have been sent. No byte was sent. `cause`: the error
 * of the database, if that prevented the renewal of the permit. `delay_ms`: how long the next attempt has to wait.
 */
export class NotStarted extends Error {
  override name = 'NotStarted'
  delay_ms: number

  constructor(
    reason = 'the queue is paused, the lease is lost, or the worker is stopping',
    { delay_ms = 0, ...options }: ErrorOptions & { delay_ms?: number } = {},
  ) {
    super(reason, options)
    this.delay_ms = delay_ms
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

/**
 * Resolves when a call may start now. Rejects with `NotStarted` if it may not, or if the database cannot be queried:
 * every other error would look like an error of the provider.
 */
export async function awaitPermit(permit: Permit): Promise<void> {
  while (!permit.valid()) {
    const is_renewed = await permit.renew().catch((cause: unknown) => {
      throw new NotStarted('the database did not answer before the call', { cause })
    })
    if (!is_renewed) throw new NotStarted()
  }
  if (permit.signal.aborted) throw new NotStarted()
}

/** The permit of the current job. Outside of a job: a permit that is always valid. */
export function currentPermit(): Permit {
  return permits.getStore() ?? ALWAYS
}
