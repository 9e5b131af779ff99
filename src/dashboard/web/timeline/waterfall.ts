// The layout of a waterfall: one axis to scale, with long periods cut out.

export type Waterfall = {
  /**
   * `left` and `width` are shares of the axis. `gap_ms`: the time without activity before the bar; 0 if it is short.
   */
  bars: { left: number; width: number; gap_ms: number }[]
  /** Cut-out periods: position and width on the axis, and their duration. */
  breaks: { left: number; width: number; ms: number }[]
  /** Labels of the axis: the time since its start. */
  ticks: { left: number; ms: number }[]
}

/**
 * A period without activity that is longer than this is labeled, and may be cut out even while an entry is running.
 */
const LONG_GAP_MS = 10_000
/** Periods shorter than this are not cut out. */
const MIN_BREAK_MS = 500
/** A period is cut out if it is at least this many times as long as all shorter periods together. */
const BREAK_RATIO = 4
/** The width of a break as a share of the axis. All breaks together take at most `MAX_BREAK_SHARE`. */
const BREAK_SHARE = 0.08
const MAX_BREAK_SHARE = 0.4
/** The width of a character, and the minimum gap between two labels, in pixels. */
const CHARACTER_PX = 7
const MIN_LABEL_GAP_PX = 10

/** The period between two consecutive starts or ends of entries. `busy`: an entry runs during the whole period. */
type Step = { from: number; to: number; ms: number; busy: boolean }

/** Places the bars of entries, which are in order of time. */
export function placeBars(entries: { at: string; ended_at?: string | null }[]): Waterfall {
  const spans = entries.map(({ at, ended_at }) => {
    const from = Date.parse(at)
    return { from, to: Math.max(from, ended_at ? Date.parse(ended_at) : from) }
  })
  const marks = [...new Set(spans.flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b)
  const steps = marks.slice(1).map((to, at): Step => {
    const from = marks[at]!
    return { from, to, ms: to - from, busy: spans.some((span) => span.from <= from && span.to >= to) }
  })
  const cut = stepsToCut(steps)
  const share = Math.min(BREAK_SHARE, MAX_BREAK_SHARE / cut.size)
  const drawn_ms = steps.reduce((sum, step) => sum + (cut.has(step) ? 0 : step.ms), 0)
  const scale = (1 - cut.size * (cut.size === 0 ? 0 : share)) / (drawn_ms || 1)
  const [start_ms = 0] = marks
  const position = new Map([[start_ms, 0]])
  const breaks: Waterfall['breaks'] = []
  let left = 0
  for (const step of steps) {
    const width = cut.has(step) ? share : step.ms * scale
    if (cut.has(step)) breaks.push({ left, width, ms: step.ms })
    left += width
    position.set(step.to, left)
  }
  let latest = start_ms
  const bars = spans.map(({ from, to }) => {
    const gap = from - latest
    const is_cut = [...cut].some((step) => step.from >= latest && step.to <= from)
    latest = Math.max(latest, to)
    const start = position.get(from)!
    return {
      left: Math.min(start, 0.985),
      width: Math.max(position.get(to)! - start, 0),
      gap_ms: gap >= LONG_GAP_MS || is_cut ? gap : 0,
    }
  })
  return {
    bars,
    breaks,
    ticks: ticksOf(
      [...position].map(([at, where]) => ({ left: where, ms: at - start_ms })),
      breaks,
    ),
  }
}

/**
 * The steps to cut out, because they would leave no room for the other steps. Steps with a running entry are cut out
 * only if they are long.
 */
function stepsToCut(steps: Step[]): Set<Step> {
  const cut = new Set<Step>()
  const canCut = (step: Step) => step.ms >= (step.busy ? LONG_GAP_MS : MIN_BREAK_MS)
  let drawn = steps.reduce((sum, step) => sum + (canCut(step) ? 0 : step.ms), 0)
  for (const step of steps.filter(canCut).toSorted((a, b) => a.ms - b.ms))
    if (drawn > 0 && step.ms > drawn * BREAK_RATIO) cut.add(step)
    else drawn += step.ms
  return cut
}

/** Ticks at the start, at the end, and at the edges of breaks. */
function ticksOf(positions: Waterfall['ticks'], breaks: Waterfall['breaks']): Waterfall['ticks'] {
  const [first] = positions
  const last = positions.at(-1)
  if (first === undefined || last === undefined || first === last) return []
  const edges = new Set(breaks.flatMap(({ left, width }) => [left, left + width]))
  return [first, ...positions.slice(1, -1).filter(({ left }) => edges.has(left)), last]
}

/** The labels that fit an axis of `width_px` without overlap. The last label is right-aligned at the end. */
export function labelsOf(
  ticks: Waterfall['ticks'],
  width_px: number,
  textOf: (ms: number) => string,
): { left: number; text: string; is_last: boolean }[] {
  const labels = ticks.map(({ left, ms }, at) => ({
    left,
    text: textOf(ms),
    is_last: at === ticks.length - 1,
  }))
  const last = labels.at(-1)
  const lengthOf = ({ text }: { text: string }) => text.length * CHARACTER_PX + MIN_LABEL_GAP_PX
  let free_px = 0
  return labels.filter((label) => {
    if (label.is_last) return true
    const from_px = label.left * width_px
    const fits =
      from_px >= free_px && from_px + lengthOf(label) + lengthOf(last!) <= width_px + MIN_LABEL_GAP_PX
    if (fits) free_px = from_px + lengthOf(label)
    return fits
  })
}
