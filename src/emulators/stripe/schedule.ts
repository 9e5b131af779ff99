// Delayed changes, such as decisions of a bank, after the answer to the request that started them.
import type { Emulator } from './emulator.ts'

/** Delay of automatic changes: long enough to follow the answer, short enough for interactive use. */
export const SETTLE_DELAY_MS = 40

/** Runs `act` after a delay, unless the emulator has been closed. */
export function schedule(emulator: Emulator, after_ms: number, act: () => void): void {
  if (emulator.closed) return
  const timer = setTimeout(() => {
    emulator.timers.delete(timer)
    act()
  }, after_ms)
  emulator.timers.add(timer)
}

/**
 * The behavior that the name of a test token selects: `noAccount` for `ba_noAccount`. `usual`: the behavior of other
 * tokens.
 */
export function behaviorOf<T extends string>(
  behaviors: Record<T, unknown>,
  id: string,
  fallback: NoInfer<T>,
): T {
  const name = id.slice(id.indexOf('_') + 1)
  return Object.hasOwn(behaviors, name) ? (name as T) : fallback
}
