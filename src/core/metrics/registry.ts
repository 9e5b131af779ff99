// The registry of metrics, with the metrics of Node, and the buckets of histograms.
import { Registry, collectDefaultMetrics, type RegistryContentType } from 'prom-client'

export const registry = new Registry<RegistryContentType>()
// prom-client permits metrics with exemplars only in a registry of this format. `metrics.ts` changes it back when all
// metrics are registered.
registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
// The event loop lag statistics would wake each process a hundred times a second, which costs an idle process more
// than all other work. They are removed; `nodejs_eventloop_lag_seconds` is measured on request.
collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 2 ** 31 - 1 })
for (const statistic of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'])
  registry.removeSingleMetric(`nodejs_eventloop_lag_${statistic}_seconds`)

/** Serves the metrics in the format of Prometheus, without exemplars. */
export function usePrometheusFormat(): void {
  registry.setContentType(Registry.PROMETHEUS_CONTENT_TYPE)
}

/** Serves the metrics in the format of OpenMetrics, the only one that has exemplars. */
export function useOpenMetrics(): void {
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
}

export const OPEN_METRICS = 'application/openmetrics-text'
export const END_OF_OPEN_METRICS = '# EOF\n'

/** Whether a scraper asks for OpenMetrics, as Prometheus does. `accept`: the header of its request. */
export function wantsOpenMetrics(accept = ''): boolean {
  return accept.includes(OPEN_METRICS)
}

/**
 * Metrics in the format of OpenMetrics as those of Prometheus: counters keep their suffix in HELP and TYPE, and
 * exemplars are left out. A registry cannot return to that format, because OpenMetrics renames its counters.
 */
export function asPrometheusFormat(text: string): string {
  if (!text.endsWith(END_OF_OPEN_METRICS)) return text
  return text
    .slice(0, -END_OF_OPEN_METRICS.length)
    .replace(/^# HELP (\S+)( .*\n# TYPE )\1 counter$/gm, '# HELP $1_total$2$1_total counter')
    .replace(/^([^#].*) # \{.*\} \S+ \S+$/gm, '$1')
}

/** The content type of these metrics: the text in the format of OpenMetrics ends with a mark. */
export function contentTypeOf(text: string): string {
  return text.endsWith(END_OF_OPEN_METRICS)
    ? Registry.OPENMETRICS_CONTENT_TYPE
    : Registry.PROMETHEUS_CONTENT_TYPE
}

export const registers = [registry]
export const SHORT_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
]
export const LONG_BUCKETS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
]

/** The end of the help of gauges that every worker reads from the database. */
export const SAME_IN_WORKERS = 'Each worker reports the same value: use the maximum'
