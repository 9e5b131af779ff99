// Turns: of what one key asks, only so much is under way at once; a little more waits.
import { createGate, type Gate } from '#core/gate.ts'

/** Runs `work` when it is the turn of one more of `id`; a turn ends with its work. */
export type Turns = <T>(id: string, work: () => Promise<T>) => Promise<T>

/** `limits`: of each id. */
export function createTurns(limits: Parameters<typeof createGate>[0]): Turns {
  const gates = new Map<string, { pass: Gate; asked: number }>()

  return async (id, work) => {
    const gate = gates.get(id) ?? { pass: createGate(limits), asked: 0 }
    gates.set(id, gate)
    gate.asked += 1
    try {
      return await gate.pass(work)
    } finally {
      gate.asked -= 1
      if (gate.asked === 0) gates.delete(id)
    }
  }
}
