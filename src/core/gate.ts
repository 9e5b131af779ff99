// Gates limit how much work runs at once: more callers wait in line, as many and as long as allowed; the rest are
// refused.

/** Runs `work` when there is room; rejects with the error of `refuse` when too many wait or the wait takes too long. */
export type Gate = <T>(work: () => Promise<T>) => Promise<T>

/** How many callers run and wait at once. Without `queue` all wait, for as long as it takes. */
export type GateLimits = {
  running: number
  queue?: { waiting: number; wait_ms: number; refuse: () => Error }
}

export function createGate({ running: most, queue }: GateLimits): Gate {
  const line = new Set<() => void>()
  let running = 0

  function wait(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (queue === undefined) return void line.add(resolve)
      if (line.size >= queue.waiting) return reject(queue.refuse())
      const next = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        line.delete(next)
        reject(queue.refuse())
      }, queue.wait_ms)
      line.add(next)
    })
  }

  return async (work) => {
    if (running < most) running += 1
    else await wait()
    try {
      return await work()
    } finally {
      const [next] = line
      if (next === undefined) running -= 1
      else {
        line.delete(next)
        next()
      }
    }
  }
}

/**
 * Runs `work` of `id` when there is room: who waits is served by turns of the ids. Rejects with the reason of `signal`
 * when that aborts first.
 */
export type FairGate = <T>(id: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>

export function createFairGate(most: number): FairGate {
  /** In the order of their turns. */
  const lines = new Map<string, Set<() => void>>()
  let running = 0

  function wait(id: string, signal: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const line = lines.get(id) ?? new Set()
      lines.set(id, line)
      const leave = () => {
        line.delete(next)
        if (line.size === 0) lines.delete(id)
        reject(signal.reason)
      }
      const next = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      signal.addEventListener('abort', leave)
      line.add(next)
    })
  }

  function nextInTurn(): (() => void) | undefined {
    const [first] = lines
    if (first === undefined) return undefined
    const [id, line] = first
    const [next] = line
    lines.delete(id)
    line.delete(next!)
    if (line.size > 0) lines.set(id, line)
    return next
  }

  return async (id, signal, work) => {
    signal.throwIfAborted()
    if (running < most) running += 1
    else await wait(id, signal)
    try {
      return await work()
    } finally {
      const next = nextInTurn()
      if (next === undefined) running -= 1
      else next()
    }
  }
}

/** A gate for each id, with these limits each. */
export function createGates(limits: GateLimits): <T>(id: string, work: () => Promise<T>) => Promise<T> {
  const gates = new Map<string, { pass: Gate; callers: number }>()
  return async (id, work) => {
    const gate = gates.get(id) ?? { pass: createGate(limits), callers: 0 }
    gates.set(id, gate)
    gate.callers += 1
    try {
      return await gate.pass(work)
    } finally {
      gate.callers -= 1
      if (gate.callers === 0) gates.delete(id)
    }
  }
}
