// A gate limits how much work runs at once: a few more callers wait for a moment, the rest are refused.

/** Runs `work`; rejects with the error of `refuse` when too many wait or the wait takes too long. */
export type Gate = <T>(work: () => Promise<T>) => Promise<T>

export function createGate(limits: {
  running: number
  waiting: number
  wait_ms: number
  refuse: () => Error
}): Gate {
  const waiting = new Set<() => void>()
  let running = 0

  async function turn(): Promise<void> {
    if (waiting.size >= limits.waiting) throw limits.refuse()
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        waiting.delete(next)
        reject(limits.refuse())
      }, limits.wait_ms)
      waiting.add(next)
    })
  }

  return async (work) => {
    if (running < limits.running) running += 1
    else await turn()
    try {
      return await work()
    } finally {
      const [next] = waiting
      if (next === undefined) running -= 1
      else {
        waiting.delete(next)
        next()
      }
    }
  }
}
