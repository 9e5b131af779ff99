// Watches whether the backend is away: unreachable, silent, or refusing writes.
import type { Backend } from './backend.ts'
import { QueueTimeoutError, withTimeout } from './late.ts'
import {
  down_probe_interval_ms,
  idle_after_ms,
  idle_probe_interval_ms,
  probe_interval_ms,
} from './settings.ts'

export type BackendWatch = {
  isDown(): boolean
  /** When it was last back, on the clock of `performance.now()`. */
  upSince(): number
  /** Something is sent to it. */
  markUsed: () => void
  /** Something failed or changed: probes at once. */
  probeNow: () => void
  onLost(reason: string): void
  close(): void
}

/** Probes the backend regularly and calls `onAway` and `onBack` on changes. */
export function watchBackend(
  backend: Pick<Backend, 'probe' | 'reconnect' | 'limit_ms'>,
  { onDown, onUp }: { onDown: (reason: string) => void; onUp: () => void },
): BackendWatch {
  let isDown = false
  let up_since = Number.NEGATIVE_INFINITY
  let closed = false
  let probing = false
  let late_in_a_row = 0
  let used_at = performance.now()
  let timer: NodeJS.Timeout | undefined

  function markDown(reason: string): void {
    if (isDown || closed) return
    isDown = true
    onDown(reason)
  }

  function markUp(): void {
    if (!isDown || closed) return
    isDown = false
    up_since = performance.now()
    onUp()
  }

  async function probe(): Promise<void> {
    if (probing || closed) return
    clearTimeout(timer)
    probing = true
    try {
      await withTimeout(backend.probe(), backend.limit_ms)
      late_in_a_row = 0
      markUp()
    } catch (error) {
      markDown(error instanceof Error ? error.message : String(error))
      late_in_a_row = error instanceof QueueTimeoutError ? late_in_a_row + 1 : 0
      // One late answer may be a pause; after two the connection is considered dead.
      if (late_in_a_row >= 2 && !closed) backend.reconnect()
    }
    probing = false
    scheduleProbe()
  }

  function scheduleProbe(): void {
    if (closed) return
    clearTimeout(timer)
    const in_use = performance.now() - used_at < idle_after_ms
    const interval_ms = in_use ? probe_interval_ms : idle_probe_interval_ms
    timer = setTimeout(() => void probe(), isDown ? down_probe_interval_ms : interval_ms)
  }

  scheduleProbe()
  return {
    isDown: () => isDown,
    upSince: () => up_since,
    markUsed: () => void (used_at = performance.now()),
    probeNow: () => void probe(),
    onLost(reason) {
      markDown(reason)
      if (!probing) scheduleProbe()
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}
