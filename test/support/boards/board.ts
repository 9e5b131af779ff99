// The parts of the Grafana boards: rows of panels, each with its queries to Prometheus.
import {
  TooltipDisplayMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common'
import {
  DashboardBuilder,
  DatasourceVariableBuilder,
  RowBuilder,
} from '@grafana/grafana-foundation-sdk/dashboard'
import type { Dashboard } from '@grafana/grafana-foundation-sdk/dashboard'
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder } from '@grafana/grafana-foundation-sdk/timeseries'

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }
const GRID_COLUMNS = 24
const PANELS_IN_A_ROW = 3
const HEIGHT = 8

/** A query and its legend, such as `{{queue}}`. */
export type Query = [expression: string, legend: string]
/** `unit`: a unit of Grafana, such as `s` or `short`. `about`: what the panel shows, and what is unusual. */
type Panel = { title: string; unit: string; about: string; queries: Query[] }
export type Row = { title: string; panels: Panel[] }

/** A board. `name`: the end of its uid and of its address in Grafana. */
export function board(name: string, title: string, rows: Row[]): Dashboard {
  const builder = new DashboardBuilder(`Sluice: ${title}`)
    .uid(`sluice-${name}`)
    .tags(['sluice'])
    .refresh('30s')
    .time({ from: 'now-3h', to: 'now' })
    .timezone('browser')
    .readonly()
    .withVariable(new DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'))
  for (const row of rows) {
    builder.withRow(new RowBuilder(row.title))
    for (const panel of row.panels) builder.withPanel(timeseries(panel))
  }
  return builder.build()
}

function timeseries({ title, unit, about, queries }: Panel): PanelBuilder {
  const builder = new PanelBuilder()
    .title(title)
    .description(about)
    .unit(unit)
    .min(0)
    .datasource(DATASOURCE)
    .span(GRID_COLUMNS / PANELS_IN_A_ROW)
    .height(HEIGHT)
    .fillOpacity(10)
    .legend(new VizLegendOptionsBuilder().showLegend(true))
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi))
  for (const [index, [expression, legend]] of queries.entries())
    builder.withTarget(
      new DataqueryBuilder()
        .refId(String.fromCharCode(65 + index))
        .expr(expression)
        .legendFormat(legend),
    )
  return builder
}

/** Events a second of a counter, by these labels. 0 while the counter has had no event. */
export function perSecond(counter: string, ...labels: string[]): Query {
  return [`sum${by(labels)}(rate(${counter}[$__rate_interval])) or vector(0)`, legendOf(labels)]
}

/** A gauge that each worker reports: the maximum, by these labels. 0 while no worker reports it. */
export function maximum(gauge: string, ...labels: string[]): Query {
  return [`max${by(labels)}(${gauge}) or vector(0)`, legendOf(labels)]
}

/** The 99th percentile of a histogram, by these labels. `selector`: labels in braces, or nothing. */
export function p99(histogram: string, labels: string[], selector = ''): Query {
  const rates = `sum${by([...labels, 'le'])}(rate(${histogram}_bucket${selector}[$__rate_interval]))`
  return [`histogram_quantile(0.99, ${rates})`, `${legendOf(labels)} p99`]
}

/** The mean of a histogram, by this label. */
export function mean(histogram: string, label: string): Query {
  const sum = (part: string) => `sum${by([label])}(rate(${histogram}_${part}[$__rate_interval]))`
  return [`${sum('sum')} / ${sum('count')}`, legendOf([label])]
}

const by = (labels: string[]) => (labels.length === 0 ? '' : ` by (${labels.join(', ')}) `)
const legendOf = (labels: string[]) =>
  labels.length === 0 ? 'all' : labels.map((label) => `{{${label}}}`).join(' ')
