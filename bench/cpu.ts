// Measures cost as the processor time of all started processes. On a busy machine, processor time varies far less than
// rates.
import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts processor time in hundredths of a second. */
const TICK_MS = 10

/**
 * Milliseconds of processor time by program, of the process `root` and all its descendants. Default: this process,
 * which has the name `load` in the result. Empty without /proc. Includes ended children, because PostgreSQL starts many
 * short-lived processes.
 */
export function cpuTimes(root = process.pid): Map<string, number> {
  const processes = new Map<number, { parent: number; ms: number; name: string }>()
  for (const pid of pids()) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0)
      processes.set(pid, { parent: Number(fields[1]), ms: ticks * TICK_MS, name: nameOf(pid) })
    } catch {
      // The process has just ended.
    }
  }
  const times = new Map<string, number>()
  for (const [pid, { ms, name }] of processes) {
    if (isDescendant(pid)) times.set(name, (times.get(name) ?? 0) + ms)
  }
  return times

  function isDescendant(pid: number): boolean {
    if (pid === root) return true
    const found = processes.get(pid)
    return found !== undefined && isDescendant(found.parent)
  }
}

/** Microseconds per request of each program between two readings. Programs without processor time are omitted. */
export function costs(
  before: Map<string, number>,
  after: Map<string, number>,
  requests: number,
): Record<string, number> {
  const used = Array.from(
    after,
    ([name, ms]) => [name, ((ms - (before.get(name) ?? 0)) * 1000) / requests] as const,
  )
  return Object.fromEntries(used.filter(([, us]) => us >= 0.5))
}

function pids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
  } catch {
    return []
  }
}

function nameOf(pid: number): string {
  if (pid === process.pid) return 'load'
  const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  return (
    /(postgres|redis-server|valkey-server)/.exec(command)?.[1] ??
    /(?:src|floors)\/([\w-]+)/.exec(command)?.[1] ??
    'other'
  )
}
