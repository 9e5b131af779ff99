// Schedules the faults as a function of the options and the seed.
import type { Fault } from './faults/fault.ts'
import { seeded } from './random.ts'

/** `seed`: for the random choices of the fault itself. */
export type PlannedFault = { at_ms: number; fault: string; seed: number }

const WARM_UP_MS = 4000

/**
 * Plans the long faults first, then each short fault in random order, and repeats the short faults in new orders
 * until the time is filled.
 */
export function planFaults(faults: Fault[], seed: number, length_ms: number): PlannedFault[] {
  const random = seeded(seed, -1_000_000)
  const planned: PlannedFault[] = []
  let at_ms = WARM_UP_MS
  for (let round = 1; ; round++) {
    const fitted = planned.length
    const order = random.shuffle(faults).sort((a, b) => (b.minutes ?? 0) - (a.minutes ?? 0))
    for (const { name, duration_ms, minutes } of order) {
      if (round > 1 && minutes !== undefined && faults.length > 1) continue
      if (at_ms + duration_ms > length_ms && planned.length > 0) continue
      planned.push({ at_ms, fault: name, seed: random.between(1, 1e9) })
      at_ms += duration_ms + random.between(100, 700)
    }
    if (planned.length === fitted) return planned
  }
}
