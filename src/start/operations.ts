// Readiness and metrics of all parts at one address.
import { ConfigError } from '#core/config.ts'
import { END_OF_OPEN_METRICS, OPEN_METRICS } from '#core/metrics.ts'
import type { SupervisedPart } from './supervisor.ts'

const TIMEOUT_MS = 5_000

/** The merged `/readyz` of all services. Throws ConfigError with the reason of the first service that is not ready. */
export async function readinessOf(services: SupervisedPart[]): Promise<Record<string, unknown>> {
  const answers = await Promise.all(
    services.map(async (service) => {
      const text = await fetchFrom(service, '/readyz')
      if (text === undefined) throw new ConfigError(`the ${service.name} does not answer`)
      const { status, ...facts } = JSON.parse(text) as Record<string, unknown>
      if (status !== 'ready')
        throw new ConfigError(`the ${service.name} is not ready: ${String(facts['reason'])}`)
      return facts
    }),
  )
  return Object.assign({}, ...answers) as Record<string, unknown>
}

/**
 * The metrics of all services as one text, with the label `part`. A service that does not answer is left out. With
 * traces, all services use the format of OpenMetrics, which ends with a mark.
 */
export async function metricsOf(services: SupervisedPart[]): Promise<string> {
  /** The lines of each metric by its HELP line: first the HELP and TYPE lines, then the samples of each service. */
  const metrics = new Map<string, string[]>()
  let end = ''
  for (const [index, text] of (
    await Promise.all(services.map((one) => fetchFrom(one, '/metrics')))
  ).entries()) {
    const label = `part="${services[index]!.name.split(' ')[0]}"`
    if (text?.endsWith(END_OF_OPEN_METRICS) === true) end = END_OF_OPEN_METRICS
    for (const block of text?.replace(END_OF_OPEN_METRICS, '').split(/^(?=# HELP )/m) ?? []) {
      const lines = block.split('\n').filter((line) => line !== '')
      const [help = '', type = ''] = lines
      const samples = metrics.get(help) ?? [help, type]
      metrics.set(help, samples)
      samples.push(...lines.slice(2).map((line) => withLabel(line, label)))
    }
  }
  return `${[...metrics.values()].flat().join('\n')}\n${end}`
}

function withLabel(sample: string, label: string): string {
  return sample.replace(/^([\w:]+)(\{?)/, (_, name: string, brace: string) =>
    brace === '' ? `${name}{${label}}` : `${name}{${label},`,
  )
}

async function fetchFrom(service: SupervisedPart, path: string): Promise<string | undefined> {
  const url = service.addresses()?.operations_url
  if (url === undefined) return undefined
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const answer = await fetch(url + path, { signal, headers: { accept: `${OPEN_METRICS}, */*` } })
    return await answer.text()
  } catch {
    return undefined
  }
}
