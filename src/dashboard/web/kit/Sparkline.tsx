// Sparklines.

/**
 * A small line chart without axes. Null is a gap, a single value a flat line. `label` describes it. `top`: the value at
 * the upper edge. Default: the highest value.
 */
export function Sparkline({
  values,
  label,
  height = 32,
  top = 0,
}: {
  values: (number | null)[]
  label: string
  height?: number
  top?: number
}) {
  const lines = sparklinePaths(values, height, top)
  return (
    <svg
      className="spark"
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      height={height}
      role="img"
      aria-label={label}
    >
      {lines.map(({ path, from, to }) => (
        <path key={from} className="spark-area" d={`${path}L${to} ${height}L${from} ${height}Z`} />
      ))}
      {lines.map(({ path, from }) => (
        <path key={from} d={path} />
      ))}
    </svg>
  )
}

/** One path for each run of values without a gap. A single value between gaps is a dash. */
function sparklinePaths(values: (number | null)[], height: number, top: number) {
  const points_shown = values.length < 2 ? [values[0] ?? 0, values[0] ?? 0] : values
  const present_values = points_shown.filter((value) => value !== null)
  const [min, max] = [Math.min(0, ...present_values), Math.max(top, ...present_values)]
  const range = max - min || 1
  const segments: [x: number, y: number][][] = []
  for (const [at, value] of points_shown.entries()) {
    if (value === null) continue
    const point: [number, number] = [
      (at / (points_shown.length - 1)) * 100,
      height - 1.5 - ((value - min) / range) * (height - 3),
    ]
    if (at === 0 || points_shown[at - 1] === null) segments.push([point])
    else segments.at(-1)!.push(point)
  }
  return segments.map((points) => {
    const [[x, y]] = points as [[number, number]]
    const ends = points.length > 1 ? points : [Math.max(0, x - 2), Math.min(100, x + 2)].map((px) => [px, y])
    const drawn = ends.map((point) => point.map((coordinate) => coordinate.toFixed(2)))
    return {
      path: drawn.map((point, at) => `${at === 0 ? 'M' : 'L'}${point.join(' ')}`).join(''),
      from: drawn[0]?.[0] ?? '0',
      to: drawn.at(-1)?.[0] ?? '100',
    }
  })
}
