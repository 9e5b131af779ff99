// Generates docs/guides/metrics.md from the metrics that processes serve.
import { booksMetrics } from '#core/metrics/books.ts'
import { databaseMetrics } from '#core/metrics/database.ts'
import { eventsMetrics } from '#core/metrics/events.ts'
import { jobsMetrics } from '#core/metrics/jobs.ts'
import { notificationsMetrics } from '#core/metrics/notifications.ts'
import { poolsMetrics } from '#core/metrics/pools.ts'
import { providersMetrics } from '#core/metrics/providers.ts'
import { requestsMetrics } from '#core/metrics/requests.ts'
import { registry } from '#core/metrics.ts'

const SECTIONS: readonly (readonly [title: string, metrics: Record<string, object>])[] = [
  ['Requests and processes', requestsMetrics],
  ['Jobs and recurring work', jobsMetrics],
  ['Providers', providersMetrics],
  ['Database', { ...databaseMetrics, ...poolsMetrics }],
  ['Events out', eventsMetrics],
  ['Notifications', notificationsMetrics],
  ['Books', booksMetrics],
]

/** The fields of a metric that prom-client does not declare. */
type Metric = { name: string; help: string; labelNames: string[]; type: string }

/** The names of all metrics of Sluice, and of those in a section of the page. */
export function metricNames(): { served: string[]; listed: string[] } {
  return {
    served: registry
      .getMetricsAsArray()
      .map(({ name }) => name)
      .filter((name) => name.startsWith('sluice_')),
    listed: SECTIONS.flatMap(([, metrics]) => Object.values(metrics as Record<string, Metric>)).map(
      ({ name }) => name,
    ),
  }
}

/** The text of the page. */
export function metricsPage(): string {
  const sections = SECTIONS.map(([title, metrics]) => {
    const rows = Object.values(metrics as Record<string, Metric>).map(({ name, help, labelNames, type }) => {
      const labels = labelNames.map((label) => `\`${label}\``).join(', ')
      return `| \`${name}\` | ${type} | ${labels} | ${help.replaceAll('|', '\\|')}. |`
    })
    return `## ${title}\n\n${['| metric | type | labels | meaning |', '|---|---|---|---|', ...rows].join('\n')}\n`
  })
  return `<!-- keywords: prometheus grafana monitoring gauge counter histogram pool snapshot horizon plans exporter scrape openmetrics -->

# Metrics

Every metric that processes serve at \`/metrics\`, with its labels. \`npx vitest run test/metrics.test.ts -u\` generates this page.
[Operations](operations.md#readiness) says at which address each process serves them, and [Alerts](operations.md#alerts) which to watch.

Counters and histograms count what one process did: sum them over the processes. A gauge that every worker reads from the database has
the same value in each: use the maximum, such as \`max by (queue) (sluice_jobs_waiting)\`. Under \`npm start\` each metric also has the label
\`part\`. The metrics of Node (\`process_\`, \`nodejs_\`) are served too.

${sections.join('\n')}`
}
