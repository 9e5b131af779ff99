// The result: one row per measurement with its floor, ratio and required value (`bar`), as text, Markdown or JSON.

export type Row = {
  /** The measure, as in `--only`. */
  measure: string
  name: string
  measured: number
  unit: Unit
  /** The figure to compare with: measured in the same run, or the figure of another product. */
  floor: { name: string; value: number } | null
  bar: { text: string; met: boolean } | null
  /** For a `cost`: microseconds by program. */
  cpu?: Record<string, number>
}
type Unit =
  | 'req/s'
  | 'payments/s'
  | 'payouts/s'
  | 'messages/s'
  | 'jobs/s'
  | 'events/s'
  | 'requests'
  | 'rows/h'
  | 'ms'
  | 's'
  | 'MB'
  | 'us CPU'
  | '%'

/** A row whose value must be at least `times` the floor. */
export function atLeast(row: Measurement, floor: Floor, times: number): Row {
  const text = times < 1 ? `>= ${Math.round(times * 100)} % of ${floor.name}` : `>= ${times} x ${floor.name}`
  return { ...row, floor, bar: { text, met: row.measured >= floor.value * times } }
}

/** A row whose value must be at most `times` the floor. */
export function atMost(row: Measurement, floor: Floor, times: number): Row {
  return {
    ...row,
    floor,
    bar: { text: `<= ${times} x ${floor.name}`, met: row.measured <= floor.value * times },
  }
}

/** A row whose value must be below `limit`. */
export function below(row: Measurement, limit: number): Row {
  return { ...row, floor: null, bar: { text: `< ${limit} ${row.unit}`, met: row.measured < limit } }
}

/** A row whose value must be at least `limit`. */
export function above(row: Measurement, limit: number): Row {
  const text = `>= ${limit.toLocaleString('en-US')} ${row.unit}`
  return { ...row, floor: null, bar: { text, met: row.measured >= limit } }
}

/** A row without a required value. The floor is only for comparison. */
export function info(row: Measurement, floor: Floor | null = null): Row {
  return { ...row, floor, bar: null }
}

/**
 * A row for the CPU time per request, summed over all processes. Unlike a rate, this time hardly depends on the
 * load of the machine.
 */
export function cost(
  row: Omit<Measurement, 'measured' | 'unit'>,
  side: Costs,
  floor: (Costs & { name: string }) | null = null,
): Row {
  return {
    ...row,
    name: `${row.name}, processor time of one`,
    measured: side.cpu_us,
    unit: 'us CPU',
    floor: floor && { name: floor.name, value: floor.cpu_us },
    bar: null,
    cpu: side.cpu,
  }
}

/** Processor time in microseconds for one unit of work: total, and by program. */
export type Costs = { cpu_us: number; cpu: Record<string, number> }
type Measurement = Pick<Row, 'measure' | 'name' | 'measured' | 'unit'>
type Floor = { name: string; value: number }

const HEADINGS = ['', 'measured', 'floor', 'ratio', 'bar', '']

/** The table as aligned text. */
export function asText(rows: Row[]): string {
  return alignedText([HEADINGS, ...rows.map(cellsOf)], 3)
}

/** Rows of cells as a table with its headings first. The first `numbers` columns after the name are aligned right. */
export function alignedText(cells: string[][], numbers: number): string {
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  const lines = cells.map((row) =>
    row
      .map((cell, column) =>
        column >= 1 && column <= numbers ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  )
  lines.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '))
  return `${lines.join('\n')}\n`
}

/** The table as Markdown. */
export function asMarkdown(rows: Row[]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  const ruler = line(['---', '---:', '---:', '---:', '---', '---'])
  return `${[line(HEADINGS), ruler, ...rows.map((row) => line(cellsOf(row)))].join('\n')}\n`
}

function cellsOf({ name, measured, unit, floor, bar, cpu }: Row): string[] {
  return [
    name,
    `${formatted(measured, unit)} ${unit}`,
    floor === null ? '' : formatted(floor.value, unit),
    floor === null ? '' : (measured / floor.value).toFixed(2),
    bar?.text ?? (cpu === undefined ? (floor === null ? '' : `(${floor.name})`) : breakdown(cpu)),
    bar === null ? '' : bar.met ? 'met' : 'MISSED',
  ]
}

function breakdown(cpu: Record<string, number>): string {
  const parts = Object.entries(cpu).toSorted(([, a], [, b]) => b - a)
  return parts.map(([name, us]) => `${name} ${Math.round(us)}`).join(', ')
}

function formatted(value: number, unit: Unit): string {
  if (unit === 'ms' || unit === 's' || unit === '%') return value.toFixed(2)
  if (unit === 'requests') return value.toFixed(1)
  return Math.round(value).toLocaleString('en-US')
}
