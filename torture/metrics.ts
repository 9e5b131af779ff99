// Reads metrics of a process, and tells Prometheus where they are.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '#start/ports.ts'
import { HOST } from '#test/environment.ts'
import type { PartName } from '#test/parts.ts'
import type { createLauncher, Member } from './member.ts'

type StartMember = ReturnType<typeof createLauncher>['startMember']

/**
 * Starts members whose metrics keep their address after a restart. `writeTargets` writes the addresses into a folder, in
 * a file for each part, such as `api.yaml`, from which Prometheus reads them (deploy/prometheus/prometheus.yaml).
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
  const { url } = JSON.parse(await member.process().waitForLine('/metrics and /readyz listen')) as {
    url: string
  }
  return await metricAt(url, name)
}

/** The sum over all labels of a metric at this URL; 0 if the metric has no values yet. */
export async function metricAt(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const values = text.matchAll(new RegExp(String.raw`^${name}(?:\{.*\})? (\S+)$`, 'gm'))
  return Array.from(values, ([, value]) => Number(value)).reduce((sum, value) => sum + value, 0)
}
