// A deployment whose processes send their spans to a collector.
import { openCollector, type Collector } from './collector.ts'
import { createDeployment, type Deployment, type DeploymentOptions } from './deployment.ts'

export type TracedDeployment = Deployment & AsyncDisposable & { collector: Collector }

/** Starts the collector and a deployment with Redis. Both end when the deployment closes. */
export async function createTracedDeployment(
  options: Omit<DeploymentOptions, 'queue'> = {},
): Promise<TracedDeployment> {
  await using cleanup = new AsyncDisposableStack()
  const collector = await openCollector()
  cleanup.defer(() => collector.close())
  const env = { ...options.env, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
  const deployment = await createDeployment({ ...options, queue: 'redis', env })
  cleanup.defer(() => deployment.close())
  const disposables = cleanup.move()
  const close = () => disposables.disposeAsync()
  return { ...deployment, collector, close, [Symbol.asyncDispose]: close }
}
