// Reads metrics of a process, and tells Prometheus where they are.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PartName } from '#test/parts.ts'
import type { Member } from './member.ts'

/** The metrics addresses (`host:port`) of the processes of each part. */
export type Targets = Map<PartName, string[]>

/** Writes a file for each part, such as `api.yaml`, from which Prometheus reads its targets (deploy/prometheus). */
export async function writeTargets(folder: string, targets: Targets): Promise<void> {
  for (const [part, addresses] of targets)
    await writeFile(join(folder, `${part}.yaml`), `${JSON.stringify([{ targets: addresses }])}\n`)
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
