// Gates limit how much work runs at once, and rooms how many bytes there are: more callers wait, as many, as large and as
// long as allowed; the rest are refused.

/** Runs `work` when there is room. Rejects with the error of `refuse` when the queue is full or the wait takes too long. */
export type Gate = <T>(work: () => Promise<T>, waiter?: Waiter) => Promise<T>

/** One that waits. When `signal` aborts before its turn, it leaves the queue and is rejected with the reason. */
type Waiter = { signal?: AbortSignal | undefined; bytes?: number }

/** How many run at once, and how many may wait, for how long and with how many bytes together. */
export type GateLimits = {
  running: number
  queue: { waiting: number; wait_ms: number; bytes?: number; refuse: () => Error }
}

export function createGate({ running: most, queue }: GateLimits): Gate {
  const { waiting, wait_ms, bytes: most_bytes = Infinity, refuse } = queue
  const line = new Set<() => void>()
  let running = 0
  let held = 0

  function wait({ signal, bytes = 0 }: Waiter): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (line.size >= waiting || held + bytes > most_bytes) return reject(refuse())
      const over = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', leave)
        line.delete(next)
        held -= bytes
      }
      const next = () => {
        over()
        resolve()
      }
      const leave = () => {
        over()
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        over()
        reject(refuse())
      }, wait_ms)
      signal?.addEventListener('abort', leave)
      line.add(next)
      held += bytes
    })
  }

  return async (work, waiter = {}) => {
    waiter.signal?.throwIfAborted()
    if (running < most) running += 1
    else await wait(waiter)
    try {
      return await work()
    } finally {
      const [next] = line
      if (next === undefined) running -= 1
      else next()
    }
  }
}

/**
 * Runs `work` of `id` when there is room: who waits is served by turns of the ids. Rejects with the reason of `signal`
 * when that aborts first, and with the error of `refuse` as a gate does.
 */
export type FairGate = <T>(id: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>

export function createFairGate({ running: most, queue }: GateLimits): FairGate {
  const { waiting, wait_ms, refuse } = queue
  /** In the order of their turns. */
  const lines = new Map<string, Set<() => void>>()
  let running = 0
  let count = 0

  function wait(id: string, signal: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (count >= waiting) return reject(refuse())
      const line = lines.get(id) ?? new Set()
      lines.set(id, line)
      const over = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
        count -= 1
      }
      const drop = () => {
        over()
        line.delete(next)
        if (line.size === 0) lines.delete(id)
      }
      const leave = () => {
        drop()
        reject(signal.reason)
      }
      const next = () => {
        over()
        resolve()
      }
      const timer = setTimeout(() => {
        drop()
        reject(refuse())
      }, wait_ms)
      signal.addEventListener('abort', leave)
      line.add(next)
      count += 1
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

/** What one caller has of a room, until it leaves. */
export type ByteRoom = { resize(bytes: number): void; leave(): void }
type RoomLimits = { bytes: number; queue: Omit<GateLimits['queue'], 'bytes'> }

/**
 * Room for so many bytes of each id, in the order of asking. `resize` may also take more than there is: others wait until
 * it fits. Rejects as a gate does.
 */
export function createByteGates({
  bytes: most,
  queue: { waiting, wait_ms, refuse },
}: RoomLimits): (id: string, bytes: number, signal: AbortSignal) => Promise<ByteRoom> {
  type Shared = { held: number; callers: number; line: Set<() => boolean> }
  const rooms = new Map<string, Shared>()

  function serve({ line }: Shared): void {
    for (const next of line) if (!next()) break
  }

  function wait(room: Shared, bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (room.line.size >= waiting) return reject(refuse())
      const over = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
        room.line.delete(next)
      }
      const next = () => {
        if (room.held + bytes > most) return false
        over()
        room.held += bytes
        resolve()
        return true
      }
      const drop = (error: unknown) => {
        over()
        reject(error)
        serve(room)
      }
      const leave = () => drop(signal.reason)
      const timer = setTimeout(() => drop(refuse()), wait_ms)
      signal.addEventListener('abort', leave)
      room.line.add(next)
    })
  }

  return async (id, bytes, signal) => {
    signal.throwIfAborted()
    const room = rooms.get(id) ?? { held: 0, callers: 0, line: new Set() }
    rooms.set(id, room)
    room.callers += 1
    let own = bytes
    const resize = (to: number) => {
      room.held += to - own
      own = to
      serve(room)
    }
    const forget = () => {
      room.callers -= 1
      if (room.callers === 0) rooms.delete(id)
    }
    try {
      if (room.line.size > 0 || room.held + bytes > most) await wait(room, bytes, signal)
      else room.held += bytes
    } catch (error) {
      forget()
      throw error
    }
    return {
      resize,
      leave() {
        resize(0)
        forget()
      },
    }
  }
}
