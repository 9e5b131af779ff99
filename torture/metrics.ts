// Reads metrics of a process.
import type { Member } from './member.ts'

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
