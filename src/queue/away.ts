// Watches whether the backend is down: unreachable, silent, or refusing writes.
import type { Backend } from './backend.ts'
import { AnswerTimeoutError, withTimeout } from '#core/timeout.ts'
import {
  down_probe_interval_ms,
  idle_after_ms,
  idle_probe_interval_ms,
  probe_interval_ms,
} from './settings.ts'

export type BackendWatch = {
  isDown(): boolean
  /** When the backend last recovered, on the clock of `performance.now()`. */
  upSince(): number
  /** Records that a message is sent to the backend. */
  markUsed: () => void
  /** Probes at once, after a failure or a change. */
  probeNow: () => void
  onLost(reason: string): void
  close(): void
}

/** Probes the backend regularly and calls `onDown` and `onUp` on changes. */
export function watchBackend(
  backend: Pick<Backend, 'probe' | 'reconnect' | 'limit_ms'>,
  { onDown, onUp }: { onDown: (reason: string) => void; onUp: () => void },
): BackendWatch {
  let is_down = false
  let up_since = Number.NEGATIVE_INFINITY
  let closed = false
  let probing = false
  let late_in_a_row = 0
  let used_at = performance.now()
  let timer: NodeJS.Timeout | undefined

  function markDown(reason: string): void {
    if (is_down || closed) return
    is_down = true
    onDown(reason)
  }

  function markUp(): void {
    if (!is_down || closed) return
    is_down = false
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
      late_in_a_row = error instanceof AnswerTimeoutError ? late_in_a_row + 1 : 0
      // A single late answer may be a pause of the server; after two in a row the connection counts as dead.
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
    timer = setTimeout(() => void probe(), is_down ? down_probe_interval_ms : interval_ms)
  }

  scheduleProbe()
  return {
    isDown: () => is_down,
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
