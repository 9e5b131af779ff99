// The slots of one queue in this process. They limit how many of its jobs run at once, brought by bells or by the sweep.

/** What brought a job: a bell, or the sweep's walk over the waiting jobs in the database. */
export type Bringer = 'bell' | 'walk'

export type Slots = {
  /** Runs `work` when a slot is free. When none is, bells and walks are served in turns. */
  run(by: Bringer, work: () => Promise<void>): Promise<void>
  /** How many more jobs a walk may bring. */
  room(): number
}

/** One slot in eight is kept free of walks, so that a new job finds one beside a backlog. */
const KEPT = 8

export function createSlots(size: number): Slots {
  const for_walks = size - Math.floor(size / KEPT)
  const lines: Record<Bringer, (() => void)[]> = { bell: [], walk: [] }
  let taken = 0
  let brought_by_walks = 0
  let served_last: Bringer = 'walk'

  function next(): (() => void) | undefined {
    const other = served_last === 'bell' ? 'walk' : 'bell'
    served_last = lines[other].length > 0 ? other : served_last
    return lines[served_last].shift()
  }

  return {
    async run(by, work) {
      if (by === 'walk') brought_by_walks += 1
      if (taken < size) taken += 1
      else await new Promise<void>((resolve) => lines[by].push(resolve))
      try {
        await work()
      } finally {
        if (by === 'walk') brought_by_walks -= 1
        const successor = next()
        if (successor) successor()
        else taken -= 1
      }
    },
    room: () => for_walks - brought_by_walks,
  }
}
