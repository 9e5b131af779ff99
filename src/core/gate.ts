// Gates limit concurrent work, and byte limiters limit bytes in use. Further callers wait, limited in number, bytes
// and time; the rest are refused.

/**
 * Runs `work` when the gate has room. Rejects with the error of `refuse` if the queue is full or the wait takes too
 * long.
 */
export type Gate = <T>(work: () => Promise<T>, waiter?: Waiter) => Promise<T>

/**
 * A waiting caller. If `signal` aborts, the caller leaves the queue and is rejected with the reason of `signal`.
 * `bytes`: the bytes that count against the limit of the queue while the caller waits.
 */
type Waiter = { signal?: AbortSignal | undefined; bytes?: number }

/**
 * `running`: the maximum number of running callers. `queue`: the maximum number of waiting callers, and the maximum
 * time and total bytes of their wait.
 */
export type GateLimits = {
  running: number
  queue: { waiting: number; wait_ms: number; bytes?: number; refuse: () => Error }
}

export function createGate({ running: limit, queue }: GateLimits): Gate {
  const { waiting, wait_ms, bytes: max_waiting_bytes = Infinity, refuse } = queue
  const waiters = new Set<() => void>()
  let running = 0
  let used_bytes = 0

  function wait({ signal, bytes = 0 }: Waiter): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (waiters.size >= waiting || used_bytes + bytes > max_waiting_bytes) return reject(refuse())
      const stopWaiting = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        waiters.delete(next)
        used_bytes -= bytes
      }
      const next = () => {
        stopWaiting()
        resolve()
      }
      const onAbort = () => {
        stopWaiting()
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        stopWaiting()
        reject(refuse())
      }, wait_ms)
      signal?.addEventListener('abort', onAbort)
      waiters.add(next)
      used_bytes += bytes
    })
  }

  return async (work, waiter = {}) => {
    waiter.signal?.throwIfAborted()
    if (running < limit) running += 1
    else await wait(waiter)
    try {
      return await work()
    } finally {
      const [next] = waiters
      if (next === undefined) running -= 1
      else next()
    }
  }
}

/**
 * Runs `work` of `id` when the gate has room; waiting ids are served round robin. Rejects with the reason of `signal`
 * if `signal` aborts first, and with the error of `refuse` in the same cases as a gate.
 */
export type FairGate = <T>(id: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>

export function createFairGate({ running: limit, queue }: GateLimits): FairGate {
  const { waiting, wait_ms, refuse } = queue
  /** The waiting callers of each id, in round-robin order of the ids. */
  const waiters_by_id = new Map<string, Set<() => void>>()
  let running = 0
  let count = 0

  function wait(id: string, signal: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (count >= waiting) return reject(refuse())
      const waiters = waiters_by_id.get(id) ?? new Set()
      waiters_by_id.set(id, waiters)
      const stopWaiting = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        count -= 1
      }
      const drop = () => {
        stopWaiting()
        waiters.delete(next)
        if (waiters.size === 0) waiters_by_id.delete(id)
      }
      const onAbort = () => {
        drop()
        reject(signal.reason)
      }
      const next = () => {
        stopWaiting()
        resolve()
      }
      const timer = setTimeout(() => {
        drop()
        reject(refuse())
      }, wait_ms)
      signal.addEventListener('abort', onAbort)
      waiters.add(next)
      count += 1
    })
  }

  function nextRoundRobin(): (() => void) | undefined {
    const [first] = waiters_by_id
    if (first === undefined) return undefined
    const [id, waiters] = first
    const [next] = waiters
    waiters_by_id.delete(id)
    waiters.delete(next!)
    if (waiters.size > 0) waiters_by_id.set(id, waiters)
    return next
  }

  return async (id, signal, work) => {
    signal.throwIfAborted()
    if (running < limit) running += 1
    else await wait(id, signal)
    try {
      return await work()
    } finally {
      const next = nextRoundRobin()
      if (next === undefined) running -= 1
      else next()
    }
  }
}

/** A gate with these limits for each id. */
export function createGates(
  limits: GateLimits,
): <T>(id: string, work: () => Promise<T>, waiter?: Waiter) => Promise<T> {
  const gates = new Map<string, { pass: Gate; callers: number }>()
  return async (id, work, waiter) => {
    const gate = gates.get(id) ?? { pass: createGate(limits), callers: 0 }
    gates.set(id, gate)
    gate.callers += 1
    try {
      return await gate.pass(work, waiter)
    } finally {
      gate.callers -= 1
      if (gate.callers === 0) gates.delete(id)
    }
  }
}

/** The bytes that one caller has reserved and not yet released. */
export type ByteReservation = { resize(bytes: number): void; release(): void }
type ByteLimits = { bytes: number; queue: Omit<GateLimits['queue'], 'bytes'> }

/**
 * Limits the bytes in use for each id, first come first served. A caller waits until its bytes fit the limit. `resize`
 * never waits and may exceed the limit. Rejects like a gate.
 */
export function createByteLimiters({
  bytes: limit,
  queue: { waiting, wait_ms, refuse },
}: ByteLimits): (id: string, bytes: number, signal: AbortSignal) => Promise<ByteReservation> {
  type ByteBudget = { used_bytes: number; callers: number; waiters: Set<() => boolean> }
  const budgets = new Map<string, ByteBudget>()

  function serve({ waiters }: ByteBudget): void {
    for (const next of waiters) if (!next()) break
  }

  function wait(budget: ByteBudget, bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (budget.waiters.size >= waiting) return reject(refuse())
      const stopWaiting = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        budget.waiters.delete(next)
      }
      const next = () => {
        if (budget.used_bytes + bytes > limit) return false
        stopWaiting()
        budget.used_bytes += bytes
        resolve()
        return true
      }
      const drop = (error: unknown) => {
        stopWaiting()
        reject(error)
        serve(budget)
      }
      const onAbort = () => drop(signal.reason)
      const timer = setTimeout(() => drop(refuse()), wait_ms)
      signal.addEventListener('abort', onAbort)
      budget.waiters.add(next)
    })
  }

  return async (id, bytes, signal) => {
    signal.throwIfAborted()
    const budget = budgets.get(id) ?? { used_bytes: 0, callers: 0, waiters: new Set() }
    budgets.set(id, budget)
    budget.callers += 1
    let reserved = bytes
    const resize = (to: number) => {
      budget.used_bytes += to - reserved
      reserved = to
      serve(budget)
    }
    const removeCaller = () => {
      budget.callers -= 1
      if (budget.callers === 0) budgets.delete(id)
    }
    try {
      if (budget.waiters.size > 0 || budget.used_bytes + bytes > limit) await wait(budget, bytes, signal)
      else budget.used_bytes += bytes
    } catch (error) {
      removeCaller()
      throw error
    }
    return {
      resize,
      release() {
        resize(0)
        removeCaller()
      },
    }
  }
}
