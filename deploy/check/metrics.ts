// Asks a Prometheus that scrapes a running system every query of the boards, and for every metric of the rules. Names
// what is missing, and then exits with 1: `node deploy/check/metrics.ts http://127.0.0.1:9090`.
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { metricsIn, readRules } from '#test/alerts.ts'

const BOARDS = new URL('../grafana/', import.meta.url)
/** The group of the objectives is evaluated once a minute. */
const LIMIT_MS = 90_000
const RANGE_S = 180
/** A query may return this so that a panel is not empty; it proves nothing about the metric. */
const ALWAYS_ZERO = ' or vector(0)'

type BoardQuery = { panel: string; expr: string; legend: string }
type Series = { metric: Record<string, string>; values: [number, string][] }

const [, , url] = process.argv
if (url === undefined || !URL.canParse(url)) {
  console.error('Usage: node deploy/check/metrics.ts <address of Prometheus>')
  process.exit(1)
}

const queries = await boardQueries()
const rules = await readRules()
const alerts = rules.filter(({ alert }) => alert !== undefined)
const expressions = [...queries.map(({ expr }) => expr), ...rules.map(({ expr }) => expr)]
const metrics = metricsIn(expressions.join('\n'))
for (const deadline = performance.now() + LIMIT_MS; ; await sleep(3000)) {
  const missing = await findMissing()
  if (missing.length > 0 && performance.now() < deadline) continue
  for (const line of missing) console.log(`missing: ${line}`)
  const counts = `${queries.length} queries of boards, ${alerts.length} alerts, ${metrics.length} metrics`
  console.log(`${counts}: ${missing.length} missing`)
  process.exit(missing.length === 0 ? 0 : 1)
}

async function findMissing(): Promise<string[]> {
  const exported = Object.keys(await ask<Record<string, unknown>>('metadata', {}))
  const recorded = await ask<string[]>('label/__name__/values', {})
  const { groups } = await ask<{
    groups: { rules: { name: string; health: string; lastError?: string }[] }[]
  }>('rules', {})
  const unhealthy = groups.flatMap(({ rules }) => rules).filter(({ health }) => health !== 'ok')
  const missing = [
    ...metrics.filter((name) => !exported.includes(name)).map((name) => `the metric ${name}`),
    ...rules.flatMap(({ record }) =>
      record === undefined ||
      record.endsWith(':page') ||
      record.endsWith(':ticket') ||
      recorded.includes(record)
        ? []
        : [`the recorded series ${record}`],
    ),
    ...unhealthy.map(({ name, health, lastError = '' }) => `the rule ${name}: ${health} ${lastError}`),
  ]
  for (const query of queries) {
    const fault = await faultOf(query, recorded)
    if (fault !== undefined) missing.push(`data of ${query.panel}: ${fault}: ${query.expr}`)
  }
  return missing
}

/** What is wrong with the answer to a query of a board; undefined if it returns data with the labels of its legend. */
async function faultOf({ expr, legend }: BoardQuery, stored: string[]): Promise<string | undefined> {
  const without_zero = expr.replace(ALWAYS_ZERO, '')
  const series = await rangeOf(without_zero)
  if (series.length === 0) {
    // A counter of something that has not happened has no series.
    const has_series = metricsIn(expr).some((name) => stored.some((each) => each.startsWith(name)))
    return expr.endsWith(ALWAYS_ZERO) && !has_series ? undefined : 'no data'
  }
  const labels = Array.from(legend.matchAll(/\{\{(\w+)\}\}/g), ([, label]) => label!)
  const absent = labels.filter((label) => series.every(({ metric }) => metric[label] === undefined))
  return absent.length === 0 ? undefined : `no label ${absent.join(', ')}`
}

/** The series of a query in the last minutes that have a number. */
async function rangeOf(expr: string): Promise<Series[]> {
  const end = Date.now() / 1000
  const range = { start: String(end - RANGE_S), end: String(end), step: '5' }
  const { result } = await ask<{ result: Series[] }>('query_range', { query: expr, ...range })
  return result.filter(({ values }) => values.some(([, value]) => Number.isFinite(Number(value))))
}

async function ask<T>(path: string, parameters: Record<string, string>): Promise<T> {
  const answer = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`)
  const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string }
  if (status !== 'success') throw new Error(`${error}: ${JSON.stringify(parameters)}`)
  return data
}

async function boardQueries(): Promise<BoardQuery[]> {
  const files = await readdir(BOARDS)
  const boards = await Promise.all(files.map((file) => readFile(new URL(file, BOARDS), 'utf8')))
  type Panel = { title: string; panels?: Panel[]; targets?: { expr: string; legendFormat: string }[] }
  const queriesOf = (board: string, panels: Panel[]): BoardQuery[] =>
    panels.flatMap(({ title, targets = [], panels = [] }) => [
      ...targets.map(({ expr, legendFormat }) => ({
        panel: `${board}, ${title}`,
        expr: expr.replaceAll('$__rate_interval', '1m'),
        legend: legendFormat,
      })),
      ...queriesOf(board, panels),
    ])
  return boards.flatMap((text) => {
    const { title, panels } = JSON.parse(text) as { title: string; panels: Panel[] }
    return queriesOf(title, panels)
  })
}
