// Where the bars of a waterfall are: one axis, on which time without news takes little room.

/** A bar from `left`, `width` wide, both of 1; before it nothing happened for `gap_ms`, if that is worth saying. */
export type WaterfallBar = { left: number; width: number; gap_ms: number }

/** Nothing for longer than this is said. */
const SAID_MS = 10_000

/**
 * The bars of entries in order of time. A stretch in which nothing begins or ends is drawn at most four times as long as
 * the median one, so that milliseconds are seen beside days.
 */
export function placeBars(entries: { at: string; ended_at?: string | null }[]): WaterfallBar[] {
  const spans = entries.map(({ at, ended_at }) => {
    const from = Date.parse(at)
    return { from, to: Math.max(from, ended_at ? Date.parse(ended_at) : from) }
  })
  const marks = [...new Set(spans.flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b)
  const steps = marks.slice(1).map((mark, at) => mark - marks[at]!)
  const median = steps.toSorted((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 1
  const most = Math.max(1, median * 4)
  const place = new Map<number, number>()
  let reached = 0
  for (const [at, mark] of marks.entries()) {
    if (at > 0) reached += Math.min(steps[at - 1]!, most)
    place.set(mark, reached)
  }
  const whole = reached || 1
  let latest = spans[0]?.from ?? 0
  return spans.map(({ from, to }) => {
    const gap = from - latest
    latest = Math.max(latest, to)
    const left = place.get(from)! / whole
    return {
      left: Math.min(left, 0.985),
      width: Math.max(place.get(to)! / whole - left, 0),
      gap_ms: gap >= SAID_MS ? gap : 0,
    }
  })
}
