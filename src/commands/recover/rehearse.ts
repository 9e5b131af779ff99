// `npm run recover -- rehearse`: restores a backup beside the running system, and checks what it has. It changes
// nothing but its own folder.
import { ConfigError, loadConfig, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { assertMigrated } from '#core/migrate.ts'
import { connectDatabase } from '#core/pool.ts'
import { parseDatabaseUrl } from '#core/postgres/address.ts'
import { errorText } from '#core/startup.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { findNewestChange } from '#domain/switches/find.ts'
import { requireYes } from '../ask.ts'
import { printReport } from '../audit.ts'
import { completeConfig, databaseUrl, readOnlyUrl } from '../database.ts'
import { print, printError } from '../print.ts'
import { printNewest, readNewest } from './newest.ts'
import type { RecoverOptions } from './options.ts'
import { compareProviderLists, printListsComparison } from './provider-lists.ts'

/** A statement of the audit may read whole tables. */
const STATEMENT_TIMEOUT_MS = 3_600_000
/** Work that is due for longer counts as stuck. In a restored database, nothing was done since its newest change. */
const STUCK_AFTER_S = 600
/** The lists of the providers are read since this time before the newest change, as after a switch. */
const LIST_MARGIN_MS = 3_600_000

/** Returns the exit code: 0 the audit found nothing, 1 it found a problem, 2 the rehearsal did not finish. */
export async function rehearse(values: RecoverOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const abort = new AbortController()
  const stop = () => abort.abort(new ConfigError('Stopped.'))
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, stop)
  try {
    return await rehearseUntil(abort.signal, values, completeConfig(loadConfig(env)))
  } catch (error) {
    printError(errorText(abort.signal.aborted ? abort.signal.reason : error))
    return 2
  } finally {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, stop)
  }
}

async function rehearseUntil(signal: AbortSignal, values: RecoverOptions, config: Config): Promise<number> {
  const durations: Record<string, number> = {}
  const step: Step = async (name, work) => {
    const began_at = performance.now()
    const result = await work()
    durations[name] = Math.round((performance.now() - began_at) / 100) / 10
    if (!values.json) print(`${name}: ${durations[name]} s`)
    signal.throwIfAborted()
    return result
  }
  await using cleanup = new AsyncDisposableStack()
  const { url, folder } = await step('restore', () => restore(values, config, signal, cleanup))
  const sql = connectDatabase(readOnlyUrl(url), {
    max: 2,
    application_name: 'sluice-rehearsal',
    statement_timeout_ms: STATEMENT_TIMEOUT_MS,
  })
  cleanup.defer(() => sql.end())
  await assertMigrated(sql)
  const newest = await readNewest(sql, config)
  if (!values.json) printNewest(newest)
  if (!values.json && !values.yes)
    await requireYes('Is this the state that you expect? The audit begins then.')
  const newest_at = await findNewestChange(sql)
  const report = await step('audit', () => auditRestored(sql, newest_at))
  if (!values.json) printReport(report, newest.audit)
  const from = new Date(Date.parse(newest_at) - LIST_MARGIN_MS).toISOString()
  const providers = await step('providers', () => compareProviderLists(sql, config, from))
  if (!values.json) printListsComparison(providers)
  const holds = report.problems.length === 0
  const finished = report.checks.every(({ unfinished }) => !unfinished)
  if (values.json) {
    const audit = { holds: holds && finished, ...report }
    print(
      JSON.stringify(
        { durations_s: durations, newest, audit, providers, kept: values.keep ? folder : null },
        null,
        2,
      ),
    )
  } else if (values.keep && folder !== null) print(`Kept: ${folder}, with the data of the database.`)
  return holds ? (finished ? 0 : 2) : 1
}

type Step = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** The restored database: one that exists, or a server on a copy of the backup, which `cleanup` removes. */
async function restore(
  values: RecoverOptions,
  config: Config,
  signal: AbortSignal,
  cleanup: AsyncDisposableStack,
): Promise<{ url: string; folder: string | null }> {
  const { backup, restored, to, bin, folder, 'restore-command': restore_command } = values
  if ((backup === undefined) === (restored === undefined))
    throw new ConfigError(
      'Name either the folder of a base backup, --backup, or a restored server, --restored. See --help.',
    )
  if (backup === undefined) return { url: restored!, folder: null }
  const { startRestored } = await loadServer()
  const server = await startRestored({ backup, restore_command, to, bin, folder, signal })
  if (!values.keep) cleanup.defer(() => server.remove())
  cleanup.defer(() => server.stop())
  const { user = '', database = '', settings } = parseDatabaseUrl(databaseUrl(config))
  const parameters = new URLSearchParams({ ...settings, host: server.host, sslmode: 'disable' })
  const url = `postgres://${encodeURIComponent(user)}@/${encodeURIComponent(database)}?${parameters.toString()}`
  return { url, folder: server.folder }
}

/** The image for production does not contain what runs servers. */
async function loadServer() {
  try {
    return await import('#start/restored.ts')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new ConfigError(
      'This installation has no parts that run PostgreSQL: restore the backup yourself, and name the server with --restored.',
    )
  }
}

async function auditRestored(sql: Sql, newest_at: string) {
  const age_s = Math.max(0, Math.ceil((Date.now() - Date.parse(newest_at)) / 1000))
  return await auditEverything(sql, {
    stuck_after_s: age_s + STUCK_AFTER_S,
    timeout_ms: STATEMENT_TIMEOUT_MS,
  })
}
