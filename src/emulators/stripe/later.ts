// What happens by itself a little later, as at a bank: after the answer to the request that began it.
import type { Emulator } from './emulator.ts'

/** Not sooner than the answer that it follows, and soon enough for somebody who waits. */
export const SETTLE_DELAY_MS = 40

export function schedule(emulator: Emulator, after_ms: number, act: () => void): void {
  if (emulator.closed) return
  const timer = setTimeout(() => {
    emulator.timers.delete(timer)
    act()
  }, after_ms)
  emulator.timers.add(timer)
}

/** `ba_noAccount` -> `noAccount`: what the name says will happen. */
export function behaviorOf<T extends string>(ways: Record<T, unknown>, id: string, usual: NoInfer<T>): T {
  const name = id.slice(id.indexOf('_') + 1)
  return Object.hasOwn(ways, name) ? (name as T) : usual
}
