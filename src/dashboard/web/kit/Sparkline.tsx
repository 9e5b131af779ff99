// A small line without axes.

/** The shape of some values over time; `label` says in words what it shows. Fewer than two values are a flat line. */
export function Sparkline({
  values,
  label,
  height = 32,
}: {
  values: number[]
  label: string
  height?: number
}) {
  const line = sparkPath(values, height)
  return (
    <svg
      className="spark"
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      height={height}
      role="img"
      aria-label={label}
    >
      <path className="spark-area" d={`${line}L100 ${height}L0 ${height}Z`} />
      <path d={line} />
    </svg>
  )
}

function sparkPath(values: number[], height: number): string {
  const shown = values.length < 2 ? [values[0] ?? 0, values[0] ?? 0] : values
  const [least, most] = [Math.min(0, ...shown), Math.max(0, ...shown)]
  const range = most - least || 1
  return shown
    .map((value, at) => {
      const x = (at / (shown.length - 1)) * 100
      const y = height - 1.5 - ((value - least) / range) * (height - 3)
      return `${at === 0 ? 'M' : 'L'}${x.toFixed(2)} ${y.toFixed(2)}`
    })
    .join('')
}
