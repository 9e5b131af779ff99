// Times: relative, with the exact time as a tooltip.
import { Tooltip } from '@mantine/core'
import { useSyncExternalStore } from 'react'

/**
 * A relative time (`3 minutes ago`) that updates every second. The exact time is shown on hover and on focus. Null is
 * shown as `none`. Default: a dash. `now`: the time that it is relative to, in ms. Default: the real time.
 */
export function Instant({
  at,
  none = '–',
  now: other_now,
}: {
  at: string | null | undefined
  none?: string
  now?: number
}) {
  const real_now = useNow()
  const now = other_now ?? real_now
  if (at === null || at === undefined) return <span className="dim no-value">{none}</span>
  return (
    <Tooltip label={formatInstant(at)}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the tooltip opens by keyboard */}
      <time className="instant" dateTime={at} tabIndex={0}>
        {formatRelative(Date.parse(at) - now)}
      </time>
    </Tooltip>
  )
}

/** Shows when the data was read (`at`, in ms). Never shows a future time, even if the server's clock is ahead. */
export function AsOf({ at }: { at: number }) {
  const now = useNow()
  return (
    <>
      As of <Instant at={new Date(Math.min(at, now)).toISOString()} />
    </>
  )
}

/** The exact time to the second, with the reader's time zone. */
export function formatInstant(at: string): string {
  return EXACT.format(new Date(at))
}

/** A duration: `840 ms`, `1.2 s`, `4 min`, `3 h`, `2 d`. */
export function formatDuration(ms: number): string {
  if (ms < 1) return '0 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

/** The current time in ms, updated every second while the page is visible. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}

const EXACT = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
})
// Times are in English, like all texts of the pages.
const RELATIVE_TIME = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const UNITS = [
  ['second', 1000, 60],
  ['minute', 60_000, 60],
  ['hour', 3_600_000, 24],
  ['day', 86_400_000, 30],
  ['month', 2_629_800_000, 12],
  ['year', 31_557_600_000, Infinity],
] as const

function formatRelative(ms: number): string {
  for (const [unit, size, units_until_next] of UNITS) {
    const value = Math.round(ms / size)
    if (Math.abs(value) < units_until_next) return RELATIVE_TIME.format(value, unit)
  }
  return ''
}

// One timer for all times of the page.
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  now = Date.now()
  timer ??= setInterval(() => {
    if (document.hidden) return
    now = Date.now()
    for (const each of listeners) each()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}
