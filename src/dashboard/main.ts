// The `dashboard` process: sign-in, tenant pages and operations.
import type { ApiContext } from '#api/context.ts'
import { openApiContext } from '#api/open.ts'
import type { Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { runService, createService, type Service } from '#core/service.ts'
import { listenAddresses, listenAt } from '#core/startup.ts'
import { VERSION } from '#core/version.ts'
import { deleteExpiredSessions } from '#domain/people/retention.ts'
import { buildDashboard } from './app.ts'
import { connectOperatorSql } from './reads.ts'
import { createSandbox } from './sandbox.ts'
import { openSessions } from './sessions.ts'

const CLEANUP_INTERVAL_MS = 300_000

/** Starts the dashboard against the servers that `config` names. */
export async function startDashboard(config: Config, log: Log): Promise<Service & { url: string }> {
  await using ends = new AsyncDisposableStack()
  const context = await openApiContext(config, log, 'sluice-dashboard', ends)
  const sessions = await openSessions(config, log, ends)
  const operatorSql = connectOperatorSql(config, ends)
  const app = await buildDashboard(context, {
    sessions,
    operatorSql,
    sandbox: createSandbox(context),
    emulators: config.EMULATED,
    version: VERSION,
  })
  ends.defer(() => app.close())
  const url = await listenAt(app, listenAddresses(config).dashboard)
  ends.defer(startSessionCleanup(context))
  log.info({ url: config.DASHBOARD_URL ?? url }, 'the dashboard listens')
  return { url, ...createService(ends.move(), context, { name: 'dashboard' }) }
}

/** Deletes expired sessions now and every five minutes. Returns a function that stops this. */
function startSessionCleanup({ sql, database, log }: ApiContext): () => Promise<void> {
  let running = Promise.resolve()
  const cleanUp = () => {
    running = database
      .track(async () => {
        if (database.isCurrent()) await deleteExpiredSessions(sql)
      })
      .catch((err: unknown) =>
        log.warn({ err }, 'expired sessions could not be deleted: retrying in five minutes'),
      )
  }
  cleanUp()
  const timer = setInterval(cleanUp, CLEANUP_INTERVAL_MS)
  return async () => {
    clearInterval(timer)
    await running
  }
}

if (import.meta.main)
  await runService('dashboard', 'serves sign-in, tenant pages and operations.', startDashboard)
