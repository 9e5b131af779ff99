// The drawing of a line chart: axes, lines and the selected point.
import type { KeyboardEvent } from 'react'

/** A series: its name (`p95`) and a value for each time. Null: no data. A chart has at most five series. */
export type ChartSeries = { name: string; values: (number | null)[] }

export const HEIGHT = 180
const [LEFT, RIGHT, TOP] = [48, 8, 8]
/** Height of the time labels. */
export const BOTTOM = 22

/** Maps points to pixels. `top` is the value at the upper edge. */
type Scale = { x: (index: number) => number; y: (value: number) => number; top: number; right: number }

function scaleOf(series: ChartSeries[], moments: number, width: number): Scale {
  const top = niceTop(Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))))
  const inner = Math.max(0, width - LEFT - RIGHT)
  return {
    x: (index) => LEFT + (index / Math.max(1, moments - 1)) * inner,
    y: (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM),
    top,
    right: width - RIGHT,
  }
}

/** `selected_index` is the selected point. `select` changes it. */
export function Plot({
  label,
  moments,
  series,
  formatAxis,
  width,
  selected_index,
  select,
}: {
  label: string
  moments: string[]
  series: ChartSeries[]
  formatAxis: (value: number) => string
  width: number
  selected_index: number | undefined
  select: (index: number | undefined) => void
}) {
  const scale = scaleOf(series, moments.length, width)
  const last = moments.length - 1
  const selectWithin = (index: number) => select(Math.min(last, Math.max(0, index)))

  function moveReadout(event: KeyboardEvent): void {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key]
    if (by === undefined || moments.length === 0) return
    event.preventDefault()
    selectWithin((selected_index ?? last) + by)
  }

  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- its readout moves by arrow keys
    <svg
      height={HEIGHT}
      role="img"
      aria-label={label}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- its readout moves by arrow keys
      tabIndex={0}
      onKeyDown={moveReadout}
      onBlur={() => select(undefined)}
      onPointerLeave={() => select(undefined)}
      onPointerMove={(event) => {
        const from = event.currentTarget.getBoundingClientRect().left
        const share = (event.clientX - from - LEFT) / Math.max(1, width - LEFT - RIGHT)
        selectWithin(Math.round(share * last))
      }}
    >
      <Axes
        {...{ scale, moments, formatAxis }}
        has_data={series.some(({ values }) => values.some(isPresent))}
      />
      {selected_index !== undefined && (
        <line
          className="chart-cursor"
          x1={scale.x(selected_index)}
          x2={scale.x(selected_index)}
          y1={TOP}
          y2={HEIGHT - BOTTOM}
        />
      )}
      {series.map(({ name, values }, line) => (
        <path key={name} className={`chart-line series-${line + 1}`} d={linePath(values, scale)} />
      ))}
    </svg>
  )
}

const isPresent = (value: number | null) => value !== null

/** The grid with its values, and the first and the last time. */
function Axes({
  scale: { x, y, top, right },
  moments,
  formatAxis,
  has_data,
}: {
  scale: Scale
  moments: string[]
  formatAxis: (value: number) => string
  has_data: boolean
}) {
  return (
    <>
      {(has_data ? [0, 0.5, 1] : [0]).map((share) => (
        <g key={share}>
          <line
            className="chart-grid"
            x1={LEFT}
            x2={Math.max(LEFT, right)}
            y1={y(top * share)}
            y2={y(top * share)}
          />
          <text x={LEFT - 8} y={y(top * share) + 4} textAnchor="end">
            {formatAxis(top * share)}
          </text>
        </g>
      ))}
      {!has_data && (
        <text x={(LEFT + right) / 2} y={HEIGHT / 2} textAnchor="middle">
          No data
        </text>
      )}
      {[0, moments.length - 1].map(
        (index) =>
          index >= 0 && (
            <text key={index} x={x(index)} y={HEIGHT - 4} textAnchor={index === 0 ? 'start' : 'end'}>
              {axisTime(moments, index)}
            </text>
          ),
      )}
    </>
  )
}

/** An SVG path with gaps for null values. */
function linePath(values: (number | null)[], { x, y }: Scale): string {
  return values
    .map((value, index) => {
      if (value === null) return ''
      const previous = values[index - 1] ?? null
      // A single value between gaps is a dash: a point would be invisible.
      if (previous === null && (values[index + 1] ?? null) === null)
        return `M${(x(index) - 2).toFixed(1)} ${y(value).toFixed(1)}h4`
      const is_start = previous === null
      return `${is_start ? 'M' : 'L'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`
    })
    .join('')
}

/** The smallest 1, 2 or 5 times a power of ten that is not below `max`. */
function niceTop(max: number): number {
  if (max <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(max))
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= max) ?? max
}

function axisTime(moments: string[], index: number): string {
  const days = Date.parse(moments.at(-1)!) - Date.parse(moments[0]!) > 129_600_000
  return new Date(moments[index]!).toLocaleString(
    undefined,
    days ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit' },
  )
}
