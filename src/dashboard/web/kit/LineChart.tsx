// Lines over time: with a readout by pointer and by arrow keys, and the same as a table.
import { Button } from '@mantine/core'
import { useElementSize } from '@mantine/hooks'
import { Table2, TrendingUp } from 'lucide-react'
import { useState, type KeyboardEvent } from 'react'
import { Bone } from './Bone.tsx'
import { formatInstant } from './Instant.tsx'

/** One line: its name (`p95`) and a value for each moment; null: nothing is known of it. Five at most. */
export type ChartSeries = { name: string; values: (number | null)[] }

const HEIGHT = 180
const [LEFT, RIGHT, TOP, BOTTOM] = [48, 8, 8, 22]

/** `at`: the moments, in order, the same for all lines. `format`: a value as people read it (`formatDuration`). */
export function LineChart({
  title,
  at,
  series,
  format = (value) => value.toLocaleString(),
  formatAxis = format,
  formatAt = formatInstant,
  summed = false,
}: {
  title: string
  /** Undefined: on its way. */
  at: string[] | undefined
  series: ChartSeries[]
  format?: (value: number) => string
  /** The same in few letters, beside the grid. */
  formatAxis?: (value: number) => string
  /** A moment as people read it. */
  formatAt?: (at: string) => string
  /** Of counts: while no moment is read, their sums stand beside the names, else the last. */
  summed?: boolean
}) {
  const { ref, width } = useElementSize()
  const [chosen, setChosen] = useState<number>()
  const [table, setTable] = useState(false)
  const moments = at ?? []
  const shown = chosen === undefined ? undefined : Math.min(chosen, moments.length - 1)
  const top = niceTop(Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))))
  const is_known = series.some(({ values }) => values.some((value) => value !== null))
  const x = (index: number) =>
    LEFT + (index / Math.max(1, moments.length - 1)) * Math.max(0, width - LEFT - RIGHT)
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM)

  function moveReadout(event: KeyboardEvent): void {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key]
    if (by === undefined || moments.length === 0) return
    event.preventDefault()
    setChosen(Math.min(moments.length - 1, Math.max(0, (shown ?? moments.length - 1) + by)))
  }

  return (
    <section className="chart" aria-label={title}>
      <div className="chart-head">
        <h3>{title}</h3>
        <span aria-live="polite" className="line">
          {shown !== undefined && <span className="dim">{formatAt(moments[shown]!)}</span>}
          {shown === undefined && summed && <span className="dim">Total</span>}
          {series.map(({ name, values }, line) => {
            const value = shown === undefined && summed ? sumOf(values) : values[shown ?? values.length - 1]
            return (
              <span key={name} className="chart-key">
                <i className={`series-${line + 1}`} aria-hidden />
                {name} <b>{value === null || value === undefined ? '–' : format(value)}</b>
              </span>
            )
          })}
        </span>
        <Button
          variant="subtle"
          color="gray"
          size="compact-xs"
          leftSection={table ? <TrendingUp size={12} /> : <Table2 size={12} />}
          onClick={() => setTable(!table)}
        >
          {table ? 'Show chart' : 'Show table'}
        </Button>
      </div>
      {table ? (
        <ChartTable {...{ title, moments, series, format, formatAt }} />
      ) : (
        <div ref={ref} style={{ height: HEIGHT }}>
          {at === undefined ? (
            <Bone width="100%" height={HEIGHT - BOTTOM} />
          ) : (
            // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- its readout moves by arrow keys
            <svg
              height={HEIGHT}
              role="img"
              aria-label={`${title}: ${describe(series, format)}. Use the arrow keys to read single points.`}
              // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the same
              tabIndex={0}
              onKeyDown={moveReadout}
              onBlur={() => setChosen(undefined)}
              onPointerLeave={() => setChosen(undefined)}
              onPointerMove={(event) => {
                const from = event.currentTarget.getBoundingClientRect().left
                const part = (event.clientX - from - LEFT) / Math.max(1, width - LEFT - RIGHT)
                setChosen(Math.min(moments.length - 1, Math.max(0, Math.round(part * (moments.length - 1)))))
              }}
            >
              {(is_known ? [0, 0.5, 1] : [0]).map((part) => (
                <g key={part}>
                  <line
                    className="chart-grid"
                    x1={LEFT}
                    x2={Math.max(LEFT, width - RIGHT)}
                    y1={y(top * part)}
                    y2={y(top * part)}
                  />
                  <text x={LEFT - 8} y={y(top * part) + 4} textAnchor="end">
                    {formatAxis(top * part)}
                  </text>
                </g>
              ))}
              {!is_known && (
                <text x={(LEFT + width - RIGHT) / 2} y={HEIGHT / 2} textAnchor="middle">
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
              {shown !== undefined && (
                <line className="chart-cursor" x1={x(shown)} x2={x(shown)} y1={TOP} y2={HEIGHT - BOTTOM} />
              )}
              {series.map(({ name, values }, line) => (
                <path key={name} className={`chart-line series-${line + 1}`} d={linePath(values, x, y)} />
              ))}
            </svg>
          )}
        </div>
      )}
    </section>
  )
}

function ChartTable({
  title,
  moments,
  series,
  format,
  formatAt,
}: {
  title: string
  moments: string[]
  series: ChartSeries[]
  format: (value: number) => string
  formatAt: (at: string) => string
}) {
  return (
    <div className="table-frame" style={{ maxHeight: 320, overflowY: 'auto' }}>
      <table className="table" aria-label={title}>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col" data-end>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {moments.map((moment, index) => (
            <tr key={moment}>
              <td>{formatAt(moment)}</td>
              {series.map(({ name, values }) => {
                const value = values[index]
                return (
                  <td key={name} data-end>
                    {value === null || value === undefined ? '–' : format(value)}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const sumOf = (values: (number | null)[]) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0)

/** A line with a gap where nothing is known. */
function linePath(
  values: (number | null)[],
  x: (index: number) => number,
  y: (value: number) => number,
): string {
  return values
    .map((value, index) => {
      if (value === null) return ''
      const before = values[index - 1] ?? null
      // One between gaps is a dash, or nothing would be seen of it.
      if (before === null && (values[index + 1] ?? null) === null)
        return `M${(x(index) - 2).toFixed(1)} ${y(value).toFixed(1)}h4`
      const begins = before === null
      return `${begins ? 'M' : 'L'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`
    })
    .join('')
}

function describe(series: ChartSeries[], format: (value: number) => string): string {
  return series
    .map(({ name, values }) => {
      const known = values.filter((value) => value !== null)
      if (known.length === 0) return `${name} unknown`
      return `${name} from ${format(Math.min(...known))} to ${format(Math.max(...known))}, last ${format(known.at(-1)!)}`
    })
    .join('; ')
}

/** The least of 1, 2 and 5 times a power of ten that is not below. */
function niceTop(most: number): number {
  if (most <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most) ?? most
}

function axisTime(moments: string[], index: number): string {
  const days = Date.parse(moments.at(-1)!) - Date.parse(moments[0]!) > 129_600_000
  return new Date(moments[index]!).toLocaleString(
    undefined,
    days ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit' },
  )
}
