// Turns: of what one key asks, only so much is under way at once, and the rest waits.

/** Resolves when it is the turn of one more of `id`, with what ends it; ending it twice does no harm. */
export type Turns = (id: string) => Promise<() => void>

export function createTurns(at_once: number): Turns {
  const busy = new Map<string, { count: number; waiting: (() => void)[] }>()

  return async (id) => {
    const mine = busy.get(id) ?? { count: 0, waiting: [] }
    busy.set(id, mine)
    // Who ends a turn hands it on, so the count stays.
    if (mine.count < at_once) mine.count += 1
    else await new Promise<void>((resolve) => mine.waiting.push(resolve))
    let over = false
    return () => {
      if (over) return
      over = true
      const next = mine.waiting.shift()
      if (next !== undefined) return next()
      mine.count -= 1
      if (mine.count === 0) busy.delete(id)
    }
  }
}
