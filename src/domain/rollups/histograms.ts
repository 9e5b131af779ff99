// Histograms of durations: bucket bounds, sums and percentiles.
import { z } from 'zod'

const MAX_DURATION_MS = 7 * 24 * 3600_000
const GROWTH = 1.25

/**
 * The lower bounds of the buckets after the first, in ms: 1, then each a quarter above the previous one, up to
 * a week. The first bucket counts durations below 1 ms, the last all above its bound. Stored histograms refer
 * to this list: it never changes.
 */
export const BOUNDS_MS: readonly number[] = Array.from(
  { length: Math.ceil(Math.log(MAX_DURATION_MS) / Math.log(GROWTH)) },
  (_, index) => Number((GROWTH ** index).toPrecision(6)),
)

/** The bounds as a parameter of `width_bucket`, which returns the bucket of a duration. */
export const BOUNDS_LITERAL = `{${BOUNDS_MS.join(',')}}`

const ms = (description: string) => z.number().nullable().meta({ description, example: 84 })

export const percentilesSchema = z.object({
  p50_ms: ms('The median; null without any.'),
  p95_ms: ms('The 95th percentile, accurate to a quarter.'),
  p99_ms: ms('The 99th percentile.'),
})
export type Percentiles = z.output<typeof percentilesSchema>

/** Adds `more` to `counts`, bucket by bucket. */
export function addCounts(counts: number[], more: readonly number[]): void {
  for (const [bucket, count] of more.entries()) counts[bucket] = (counts[bucket] ?? 0) + count
}

/** The percentiles of a histogram, each within the bounds of its bucket. */
export function percentilesOf(counts: readonly number[]): Percentiles {
  return { p50_ms: quantile(counts, 0.5), p95_ms: quantile(counts, 0.95), p99_ms: quantile(counts, 0.99) }
}

function quantile(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const rank = share * total
  let below = 0
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && below + count >= rank) {
      const from = bucket === 0 ? 0 : BOUNDS_MS[bucket - 1]!
      const to = BOUNDS_MS[bucket] ?? from
      return Number((from + ((rank - below) / count) * (to - from)).toPrecision(3))
    }
    below += count
  }
  return null
}
