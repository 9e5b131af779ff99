// The processes of the product. Each can be started within this process or as a separate process.
import { loadConfig, type Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { startService, type Service } from '#core/service.ts'
import { errorText } from '#core/startup.ts'
import { asUser } from './users.ts'

export type PartName = 'api' | 'webhooks' | 'worker' | 'dashboard'

type Part = {
  /** The file of the process, and the log line that reports that the process is ready. */
  file: string
  ready: string
  start: (config: Config, log: Log) => Promise<Service>
}

// Each part is imported only when it is started, so that a process that only measures other processes stays small.
export const PARTS: Record<PartName, Part> = {
  api: {
    file: 'src/api/main.ts',
    ready: 'the API listens',
    start: async (config, log) => await (await import('#api/main.ts')).startApi(config, log),
  },
  webhooks: {
    file: 'src/webhooks/main.ts',
    ready: 'the webhooks host listens',
    start: async (config, log) => await (await import('#webhooks/main.ts')).startWebhooks(config, log),
  },
  dashboard: {
    file: 'src/dashboard/main.ts',
    ready: 'the dashboard listens',
    start: async (config, log) => await (await import('#dashboard/main.ts')).startDashboard(config, log),
  },
  worker: {
    file: 'src/workers/main.ts',
    ready: 'the worker is running',
    start: async (config, log) => await (await import('#workers/main.ts')).startWorker(config, log),
  },
}

/** Starts a part in this process, as its database user. */
export async function startInThisProcess(
  name: PartName,
  env: Record<string, string>,
  log: Log,
): Promise<Service> {
  return await PARTS[name].start(loadConfig(asUser(name, env)), log)
}

/**
 * The error of a part that cannot start, as its process would print it. The part starts in this process; if it can
 * start, the error is "undefined".
 */
export async function startErrorOf(name: PartName, env: Record<string, string>): Promise<string> {
  try {
    const started = await startService(name, loadConfig({ LOG_LEVEL: 'silent', ...env }), PARTS[name].start)
    return errorText(await started.close())
  } catch (error) {
    return errorText(error)
  }
}
