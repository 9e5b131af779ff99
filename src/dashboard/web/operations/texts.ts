// Formats of rates and times, and labels of outages.
import type { Answers } from '../generated/answers.ts'
import { formatDuration } from '../kit/Instant.tsx'

type Outage = NonNullable<Answers['GET /ops/providers']['providers'][number]['outage']>

/** Labels of a provider's outage. */
export const OUTAGE_LABELS: Record<Outage['problem'], string> = {
  credentials: 'Refuses our credentials',
  no_answer: 'Does not answer',
}

/** Jobs per second: `0`, `0.2/s`, `12/s`. Below 0.1/s, jobs per minute: `3/min`. */
export function formatRate(per_s: number): string {
  if (per_s === 0) return '0'
  const [rate, unit] = per_s < 0.1 ? [per_s * 60, 'min'] : [per_s, 's']
  return `${rate.toLocaleString(undefined, { maximumFractionDigits: rate < 10 ? 1 : 0 })}/${unit}`
}

/** A rate without its unit, for columns whose heading names it. */
export const formatPerSecond = (per_s: number): string =>
  per_s.toLocaleString(undefined, { maximumFractionDigits: per_s < 10 ? 2 : 0 })

export const formatMs = (ms: number | null): string => (ms === null ? '–' : formatDuration(ms))

export const formatSeconds = (s: number): string => (s === 0 ? '0 s' : formatDuration(s * 1000))
