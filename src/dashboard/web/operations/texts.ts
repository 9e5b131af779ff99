// How the pages of operators write rates, times and outages.
import type { Answers } from '../generated/answers.ts'
import { formatDuration } from '../kit/Instant.tsx'

type Outage = NonNullable<Answers['GET /ops/providers']['providers'][number]['outage']>

/** What a provider does that has an outage. */
export const OUTAGE_LABELS: Record<Outage['problem'], string> = {
  credentials: 'Refuses our credentials',
  no_answer: 'Does not answer',
}

/** Jobs each second as people read it: `0`, `0.2/s`, `12/s`. Slow ones each minute: `3/min`. */
export function formatRate(per_s: number): string {
  if (per_s === 0) return '0'
  const [rate, unit] = per_s < 0.1 ? [per_s * 60, 'min'] : [per_s, 's']
  return `${rate.toLocaleString(undefined, { maximumFractionDigits: rate < 10 ? 1 : 0 })}/${unit}`
}

/** The same under a heading that names the unit. */
export const formatPerSecond = (per_s: number): string =>
  per_s.toLocaleString(undefined, { maximumFractionDigits: per_s < 10 ? 2 : 0 })

export const formatMs = (ms: number | null): string => (ms === null ? '–' : formatDuration(ms))

export const formatSeconds = (s: number): string => (s === 0 ? '0 s' : formatDuration(s * 1000))
