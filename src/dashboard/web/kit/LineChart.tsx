// Line charts over time, with a readout by pointer and arrow keys, and the same data as a table.
import { Button } from '@mantine/core'
import { useElementSize } from '@mantine/hooks'
import { Table2, TrendingUp } from 'lucide-react'
import { useState } from 'react'
import { Skeleton } from './Skeleton.tsx'
import { formatInstant } from './Instant.tsx'
import { BOTTOM, HEIGHT, Plot, type ChartSeries } from './Plot.tsx'

/** `at`: the times of the points, in order, shared by all series. `format` formats a value, e.g. `formatDuration`. */
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
  /** The times of the points. Undefined: loading. */
  at: string[] | undefined
  series: ChartSeries[]
  format?: (value: number) => string
  /** A short format, for the axis. */
  formatAxis?: (value: number) => string
  /** Formats a time. */
  formatAt?: (at: string) => string
  /** For counts: while no point is selected, the legend shows sums instead of the last values. */
  summed?: boolean
}) {
  const { ref, width } = useElementSize()
  const [selected, setChosen] = useState<number>()
  const [table, setTable] = useState(false)
  const moments = at ?? []
  const selected_index = selected === undefined ? undefined : Math.min(selected, moments.length - 1)
  return (
    <section className="chart" aria-label={title}>
      <div className="chart-head">
        <h3>{title}</h3>
        <Readout
          {...{ series, format, summed, selected_index }}
          at={selected_index === undefined ? undefined : formatAt(moments[selected_index]!)}
        />
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
          {/* Before the width is measured, all points would be drawn at the left edge. */}
          {at === undefined || width === 0 ? (
            <Skeleton width="100%" height={HEIGHT - BOTTOM} />
          ) : (
            <Plot
              label={`${title}: ${describeSeries(series, format)}. Use the arrow keys to read single points.`}
              {...{ moments, series, formatAxis, width, selected_index }}
              select={setChosen}
            />
          )}
        </div>
      )}
    </section>
  )
}

/** The values of the selected point. While no point is selected: the sums if `summed`, otherwise the last values. */
function Readout({
  series,
  format,
  summed,
  selected_index,
  at,
}: {
  series: ChartSeries[]
  format: (value: number) => string
  summed: boolean
  selected_index: number | undefined
  at: string | undefined
}) {
  return (
    <span aria-live="polite" className="inline">
      {at !== undefined && <span className="dim">{at}</span>}
      {selected_index === undefined && summed && <span className="dim">Total</span>}
      {series.map(({ name, values }, line) => {
        const value =
          selected_index === undefined && summed ? sumOf(values) : values[selected_index ?? values.length - 1]
        return (
          <span key={name} className="chart-key">
            <i className={`series-${line + 1}`} aria-hidden />
            {name} <b>{value === null || value === undefined ? '–' : format(value)}</b>
          </span>
        )
      })}
    </span>
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

function describeSeries(series: ChartSeries[], format: (value: number) => string): string {
  return series
    .map(({ name, values }) => {
      const present_values = values.filter((value) => value !== null)
      if (present_values.length === 0) return `${name} unknown`
      return `${name} from ${format(Math.min(...present_values))} to ${format(Math.max(...present_values))}, last ${format(present_values.at(-1)!)}`
    })
    .join('; ')
}
