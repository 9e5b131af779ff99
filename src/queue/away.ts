// Watches whether the backend is away: unreachable, silent, or refusing writes.
import type { Backend } from './backend.ts'
import { LateError, within } from './late.ts'
import {
  away_probe_interval_ms,
  idle_after_ms,
  idle_probe_interval_ms,
  probe_interval_ms,
} from './settings.ts'

export type Watch = {
  away(): boolean
  /** When it was last back, on the clock of `performance.now()`. */
  backSince(): number
  /** Something is sent to it. */
  used: () => void
  /** Something failed or changed: probes at once. */
  doubt: () => void
  lost(reason: string): void
  close(): void
}

/** Probes the backend regularly and calls `onAway` and `onBack` on changes. */
export function watchBackend(
  backend: Pick<Backend, 'probe' | 'reconnect' | 'limit_ms'>,
  { onAway, onBack }: { onAway: (reason: string) => void; onBack: () => void },
): Watch {
  let away = false
  let back_since = Number.NEGATIVE_INFINITY
  let closed = false
  let probing = false
  let late_in_a_row = 0
  let used_at = performance.now()
  let timer: NodeJS.Timeout | undefined

  function leave(reason: string): void {
    if (away || closed) return
    away = true
    onAway(reason)
  }

  function comeBack(): void {
    if (!away || closed) return
    away = false
    back_since = performance.now()
    onBack()
  }

  async function look(): Promise<void> {
    if (probing || closed) return
    clearTimeout(timer)
    probing = true
    try {
      await within(backend.probe(), backend.limit_ms)
      late_in_a_row = 0
      comeBack()
    } catch (error) {
      leave(error instanceof Error ? error.message : String(error))
      late_in_a_row = error instanceof LateError ? late_in_a_row + 1 : 0
      // One late answer may be a pause; after two the connection is considered dead.
      if (late_in_a_row >= 2 && !closed) backend.reconnect()
    }
    probing = false
    lookLater()
  }

  function lookLater(): void {
    if (closed) return
    clearTimeout(timer)
    const in_use = performance.now() - used_at < idle_after_ms
    const interval_ms = in_use ? probe_interval_ms : idle_probe_interval_ms
    timer = setTimeout(() => void look(), away ? away_probe_interval_ms : interval_ms)
  }

  lookLater()
  return {
    away: () => away,
    backSince: () => back_since,
    used: () => void (used_at = performance.now()),
    doubt: () => void look(),
    lost(reason) {
      leave(reason)
      if (!probing) lookLater()
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}
