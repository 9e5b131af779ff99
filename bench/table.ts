// The result: a row a measurement, with its floor, ratio and bar; as text, as Markdown, as JSON.

export type Row = {
  /** The measure that it belongs to, as `--only` names it. */
  measure: string
  name: string
  measured: number
  unit: Unit
  /** What it is compared with, measured in the same run, or a figure of goals.md. */
  floor: { name: string; value: number } | null
  bar: { text: string; met: boolean } | null
}
type Unit = 'req/s' | 'jobs/s' | 'ms' | 's' | 'MB'

/** At least `times` the floor. */
export function atLeast(row: Bare, floor: Floor, times: number): Row {
  const text = times < 1 ? `>= ${Math.round(times * 100)} % of ${floor.name}` : `>= ${times} x ${floor.name}`
  return { ...row, floor, bar: { text, met: row.measured >= floor.value * times } }
}

/** At most `times` the floor. */
export function atMost(row: Bare, floor: Floor, times: number): Row {
  return {
    ...row,
    floor,
    bar: { text: `<= ${times} x ${floor.name}`, met: row.measured <= floor.value * times },
  }
}

/** Below a figure, whatever the machine. */
export function below(row: Bare, limit: number): Row {
  return { ...row, floor: null, bar: { text: `< ${limit} ${row.unit}`, met: row.measured < limit } }
}

/** Without a bar; a floor only to compare. */
export function info(row: Bare, floor: Floor | null = null): Row {
  return { ...row, floor, bar: null }
}

type Bare = Pick<Row, 'measure' | 'name' | 'measured' | 'unit'>
type Floor = { name: string; value: number }

const HEADINGS = ['', 'measured', 'floor', 'ratio', 'bar', '']

/** The table as aligned text. */
export function asText(rows: Row[]): string {
  const cells = [HEADINGS, ...rows.map(cellsOf)]
  const widths = HEADINGS.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  const lines = cells.map((row) =>
    row
      .map((cell, column) =>
        column >= 1 && column <= 3 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
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

function cellsOf({ name, measured, unit, floor, bar }: Row): string[] {
  return [
    name,
    `${shown(measured, unit)} ${unit}`,
    floor === null ? '' : shown(floor.value, unit),
    floor === null ? '' : (measured / floor.value).toFixed(2),
    bar?.text ?? (floor === null ? '' : `(${floor.name})`),
    bar === null ? '' : bar.met ? 'met' : 'MISSED',
  ]
}

function shown(value: number, unit: Unit): string {
  if (unit === 'ms' || unit === 's') return value.toFixed(2)
  return Math.round(value).toLocaleString('en-US')
}
