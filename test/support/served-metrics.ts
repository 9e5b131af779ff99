// Reads the metrics that a process serves, in the text format of Prometheus.
import { urlIn, type Process } from './process.ts'

/** The text of the log line with the `url` at which a process serves its readiness and its metrics. */
export const OPERATIONS_READY = '/metrics and /readyz listen'

/** A value of a metric with its labels. */
export type Sample = { name: string; labels: Record<string, string>; value: number }

const SAMPLE = /^(?<name>[\w:]+)(?:\{(?<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (?<value>\S+)/gm
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** The URL of the readiness and the metrics of a process. Waits until the process serves them. */
export async function operationsUrlOf(process: Pick<Process, 'waitForLine'>): Promise<string> {
  return urlIn(await process.waitForLine(OPERATIONS_READY))
}

/** All samples of the process with this operations URL. */
export async function readSamples(operations_url: string): Promise<Sample[]> {
  const text = await (await fetch(`${operations_url}/metrics`)).text()
  return Array.from(text.matchAll(SAMPLE), ({ groups }) => ({
    name: groups!['name']!,
    labels: Object.fromEntries(
      Array.from((groups!['labels'] ?? '').matchAll(LABEL), ([, label, value]) => [label!, value!]),
    ),
    value: Number(groups!['value']),
  }))
}

/** The sum of the samples with this name and at least these labels; undefined without such samples. */
export async function readMetric(
  operations_url: string,
  name: string,
  labels: Record<string, string> = {},
): Promise<number | undefined> {
  const values = (await readSamples(operations_url)).flatMap((sample) =>
    sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value)
      ? [sample.value]
      : [],
  )
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0)
}
