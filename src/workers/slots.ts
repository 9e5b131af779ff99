// The slots of one queue in this process. They limit how many of its jobs run at once, from wake-ups and from scans.

/** The origin of a job: a wake-up, or a scan of the waiting jobs in the database. */
export type Source = 'wakeup' | 'scan'

export type Slots = {
  /** Runs `work` when a slot is free. Waiting wake-ups and scans get slots alternately. */
  run(by: Source, work: () => Promise<void>): Promise<void>
  /** The number of further jobs that a scan may claim. */
  room(): number
}

/** One slot in eight is reserved for wake-ups, so that a new job finds a free slot during a backlog. */
const RESERVED_ONE_IN = 8

export function createSlots(size: number): Slots {
  const scan_slots = size - Math.floor(size / RESERVED_ONE_IN)
  const waiting: Record<Source, (() => void)[]> = { wakeup: [], scan: [] }
  let used = 0
  let running_from_scans = 0
  let served_last: Source = 'scan'

  function next(): (() => void) | undefined {
    const other = served_last === 'wakeup' ? 'scan' : 'wakeup'
    served_last = waiting[other].length > 0 ? other : served_last
    return waiting[served_last].shift()
  }

  return {
    async run(by, work) {
      if (by === 'scan') running_from_scans += 1
      if (used < size) used += 1
      else await new Promise<void>((resolve) => waiting[by].push(resolve))
      try {
        await work()
      } finally {
        if (by === 'scan') running_from_scans -= 1
        const successor = next()
        if (successor) successor()
        else used -= 1
      }
    },
    room: () => scan_slots - running_from_scans,
  }
}
