// Starts a process and reads its metrics over HTTP.
import { expect } from 'vitest'
import { PARTS, type PartName } from './parts.ts'
import { eventually } from './payments.ts'
import { startProcess, urlIn } from './process.ts'
import { OPERATIONS_READY, readMetric } from './served-metrics.ts'
import { asUser } from './users.ts'

export type Measured = {
  /** The sum of the samples with at least these labels; undefined without such samples. */
  read(name: string, labels?: Record<string, string>): Promise<number | undefined>
  /** Resolves with the value when `holds` is true for it. */
  until(
    name: string,
    labels: Record<string, string>,
    holds: (value: number | undefined) => boolean,
  ): Promise<number | undefined>
  /** The messages of the log lines with the level `warn` or above. */
  warnings(): string[]
  stop(): Promise<void>
}

/** Starts a part as a process of its own, as its database user. */
export async function startMeasuredPart(name: PartName, env: Record<string, string>): Promise<Measured> {
  const started = await startProcess(PARTS[name].file, {
    env: { API_PORT: '0', ...asUser(name, env), LOG_LEVEL: 'info', METRICS_PORT: '0' },
    ready: OPERATIONS_READY,
  })
  const url = urlIn(started.ready)
  const read: Measured['read'] = (metric, labels) => readMetric(url, metric, labels)
  return {
    read,
    until: async (metric, labels, holds) =>
      await eventually(async () => {
        const value = await read(metric, labels)
        expect({ metric, labels, value, holds: holds(value) }).toMatchObject({ holds: true })
        return value
      }),
    warnings: () =>
      started
        .output()
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as { level: number | string; msg: string })
        .filter(({ level }) => level === 'warn' || level === 'error' || Number(level) >= 40)
        .map(({ msg }) => msg),
    async stop() {
      await started.end('SIGTERM')
    },
  }
}
