// Reads the metrics of processes, and writes their addresses for Prometheus.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '#start/ports.ts'
import { HOST } from '#test/environment.ts'
import type { PartName } from '#test/parts.ts'
import { operationsUrlOf, readMetric } from '#test/served-metrics.ts'
import type { createLauncher, Member } from './member.ts'

type StartMember = ReturnType<typeof createLauncher>['startMember']

/**
 * Starts members whose metrics keep their address after a restart. `writeTargets` writes the addresses into a folder,
 * in a file for each part, such as `api.yaml`, from which Prometheus reads them (deploy/prometheus/prometheus.yaml).
 */
export function onMetricsPorts(startMember: StartMember): {
  start: StartMember
  writeTargets: (folder: string | undefined) => Promise<void>
} {
  const targets = new Map<PartName, string[]>()
  return {
    async start(name, part, env) {
      const port = await freePort(HOST)
      targets.set(part, [...(targets.get(part) ?? []), `${HOST}:${port}`])
      return await startMember(name, part, { ...env, METRICS_PORT: String(port) })
    },
    async writeTargets(folder) {
      if (folder === undefined) return
      for (const [part, addresses] of targets)
        await writeFile(join(folder, `${part}.yaml`), `${JSON.stringify([{ targets: addresses }])}\n`)
    },
  }
}

/** The sum over all labels; 0 if the metric has no values yet. */
export async function metricOf(member: Member, name: string): Promise<number> {
  return (await readMetric(await operationsUrlOf(member.process()), name)) ?? 0
}
