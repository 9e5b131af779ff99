// Limits how much work of one id runs at once; a little more may wait.
import { createGate, type Gate } from '#core/gate.ts'

/** Runs `work` when `id` has a free turn; the turn ends when `work` does. */
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
