// `npm run recover -- rehearse`: restores a backup beside the running system, and checks what it has. It changes
// nothing but its own folder.
import { once } from 'node:events'
import { ConfigError, loadConfig, type Config } from '#core/config.ts'
import { isServerError, type Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { parseDatabaseUrl } from '#core/postgres/address.ts'
import { errorText } from '#core/startup.ts'
import { auditEverything, type AuditReport } from '#domain/audit/audit.ts'
import { findNewestChange } from '#domain/switches/find.ts'
import { comparedSince } from '#domain/switches/losses.ts'
import { requireYes } from '../ask.ts'
import { printReport } from '../audit.ts'
import { completeConfig, databaseUrl } from '../database.ts'
import { print, printError, terminalLines, terminalText } from '../print.ts'
import { printNewest, readNewest, type Newest } from './newest.ts'
import type { RecoverOptions } from './options.ts'
import { findOtherDatabase, openReadOnly, otherDatabaseError, type OtherDatabase } from './other-database.ts'
import { compareProviderLists, printListsComparison, type ListsComparison } from './provider-lists.ts'

/** A statement of the audit may read whole tables. */
const STATEMENT_TIMEOUT_MS = 3_600_000
/** Work that is due for longer counts as stuck. In a restored database, nothing was done since its newest change. */
const STUCK_AFTER_S = 600
/** The SQLSTATEs of a setting that the user may not change, and of one that does not exist. */
const [INSUFFICIENT_PRIVILEGE, UNDEFINED_OBJECT] = ['42501', '42704']
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** The name of the server on a copy of the backup, for messages. */
const RESTORED_SERVER = 'The restored server'

/**
 * Returns the exit code: 0 all was checked and the audit found nothing, 1 it found a problem, 2 the rehearsal did not
 * finish, 3 something could not be checked.
 */
export async function rehearse(values: RecoverOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const abort = new AbortController()
  const stop = () => {
    printError('Stopping, and removing what was created.')
    abort.abort(new ConfigError('Stopped.'))
  }
  for (const name of STOP_SIGNALS) process.once(name, stop)
  try {
    return await rehearseUntil(abort.signal, values, completeConfig(loadConfig(env)))
  } catch (error) {
    printError(terminalLines(errorText(abort.signal.aborted ? abort.signal.reason : error)))
    return 2
  } finally {
    for (const name of STOP_SIGNALS) process.off(name, stop)
  }
}

async function rehearseUntil(signal: AbortSignal, values: RecoverOptions, config: Config): Promise<number> {
  const durations: Record<string, number> = {}
  const step: Step = async (name, work) => {
    const began_at = performance.now()
    const result = await work()
    signal.throwIfAborted()
    durations[name] = Math.round((performance.now() - began_at) / 100) / 10
    if (!values.json) print(`${name}: ${durations[name]} s`)
    return result
  }
  await using cleanup = new AsyncDisposableStack()
  const { folder, ...restored } = await step('restore', () => restore(values, config, signal, cleanup))
  try {
    const sql = await openReadOnly(restored, {
      max: 2,
      application_name: 'sluice-rehearsal',
      statement_timeout_ms: STATEMENT_TIMEOUT_MS,
    })
    // What still runs is cut off.
    cleanup.defer(() => sql.end({ timeout: 1 }))
    const checked = check(sql, { values, config, signal, step })
    const { newest, report, providers } = await Promise.race([checked, rejectAtAbort(signal)])
    const holds = report.problems.length === 0
    const unchecked = findUnchecked(newest, report, providers)
    if (values.json) {
      const finished = report.checks.every(({ unfinished }) => !unfinished)
      const audit = { holds: holds && finished, ...report }
      const kept = values.keep ? folder : null
      print(JSON.stringify({ durations_s: durations, newest, audit, providers, unchecked, kept }, null, 2))
    } else if (unchecked.length > 0) print(`NOT CHECKED: ${unchecked.join('; ')}.`)
    return holds ? (unchecked.length === 0 ? 0 : 3) : 1
  } catch (error) {
    throw error instanceof ConfigError ? error : otherDatabaseError(error, restored)
  }
}

/** What the rehearsal could not check, one text for each. */
function findUnchecked(newest: Newest, { checks }: AuditReport, providers: ListsComparison): string[] {
  const unread =
    'problem' in providers
      ? ['the lists of the providers']
      : Object.entries(providers.lists).flatMap(([name, { problem }]) =>
          problem === null ? [] : [`the list ${name} of the provider`],
        )
  return [
    ...newest.witness_problems.map(() => 'a witness'),
    ...checks.flatMap(({ check, unfinished }) => (unfinished ? [`the check ${check} of the audit`] : [])),
    ...unread,
  ]
}

/** Shows what the restored database has, and checks it. */
async function check(sql: Sql, { values, config, signal, step }: Rehearsal) {
  const newest = await readNewest(sql, config)
  if (!values.json) printNewest(newest)
  if (!values.json && !values.yes)
    await requireYes('Is this the state that you expect? The audit begins then.', signal)
  const newest_at = await findNewestChange(sql)
  const report = await step('audit', () => auditRestored(sql, newest_at))
  if (!values.json) printReport(report, newest.audit)
  const from = comparedSince(newest_at)
  const providers = await step('providers', () => compareProviderLists(sql, config, from))
  if (!values.json) printListsComparison(providers)
  return { newest, report, providers }
}

type Rehearsal = { values: RecoverOptions; config: Config; signal: AbortSignal; step: Step }

async function rejectAtAbort(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort')
  throw signal.reason
}

type Step = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** The restored database: one that exists, or a server on a copy of the backup, which `cleanup` removes. */
async function restore(
  values: RecoverOptions,
  config: Config,
  signal: AbortSignal,
  cleanup: AsyncDisposableStack,
): Promise<OtherDatabase & { folder: string | null }> {
  const { backup, restored, to, bin, folder, 'restore-command': restore_command } = values
  const other = backup === undefined ? findOtherDatabase(config, '--restored', restored) : undefined
  if (backup !== undefined && restored !== undefined)
    throw new ConfigError('Name either --backup or --restored, not both. See --help.')
  if (other !== undefined) return { ...other, folder: null }
  if (backup === undefined)
    throw new ConfigError(
      'Name the folder of a base backup, --backup, or a restored server, --restored or RESTORED_DATABASE_URL. See --help.',
    )
  const { startRestored } = await loadServer()
  const report = (line: string) => printError(terminalText(line))
  const options = { backup, restore_command, to, bin, folder, signal, report }
  const server = await startRestored(options)
  cleanup.defer(async () => {
    if (values.keep) printError(`Kept: ${server.folder}, with the data of the database.`)
    else await server.remove()
  })
  cleanup.defer(() => server.stop())
  const { user = '', database = '', settings } = parseDatabaseUrl(databaseUrl(config))
  const parameters = new URLSearchParams({ ...settings, host: server.host, sslmode: 'disable' })
  parameters.delete('event_triggers')
  const url = `postgres://${encodeURIComponent(user)}@/${encodeURIComponent(database)}?${parameters.toString()}`
  const found = { name: RESTORED_SERVER, is_backup: true, folder: server.folder }
  return { ...found, url: await withoutEventTriggers(url) }
}

/**
 * A setting of the session is stronger than those of its database and user in the backup, which are stronger than those
 * of the server. Only a superuser may turn event triggers off, and servers before PostgreSQL 17 cannot: then the URL
 * stays as it is.
 */
async function withoutEventTriggers(url: string): Promise<string> {
  const with_setting = `${url}&event_triggers=off`
  const sql = connectDatabase(with_setting, { max: 1, application_name: 'sluice-rehearsal' })
  try {
    await sql`select 1`
    return with_setting
  } catch (error) {
    if (isServerError(error) && [INSUFFICIENT_PRIVILEGE, UNDEFINED_OBJECT].includes(error.code)) return url
    throw otherDatabaseError(error, { name: RESTORED_SERVER, url, is_backup: true })
  } finally {
    await sql.end({ timeout: 1 })
  }
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
