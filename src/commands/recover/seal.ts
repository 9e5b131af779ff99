// `npm run recover -- seal`: stops all writes before the database moves to another server.
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { findUndrainedProcesses, LOST_AFTER_S } from '#domain/operations/processes.ts'
import { findOpenWriters, isOnRecord, isSealed } from '#domain/switches/find.ts'
import { sealDatabase } from '#domain/switches/release.ts'
import { requireYes } from '../ask.ts'
import { print, terminalText } from '../print.ts'
import type { Recover } from './options.ts'

/** Longer than the calls to providers. */
const DEFAULT_WAIT_S = 120
const PROGRESS_INTERVAL_MS = 5_000
const BY = commandActor('npm run recover', null)

export async function seal(recover: Recover): Promise<void> {
  await (recover.values.undo ? unseal(recover) : sealAndWait(recover))
}

async function unseal({ sql, values }: Recover): Promise<void> {
  if ((await isSealed(sql)) && !(await isOnRecord(sql)))
    throw new ConfigError(
      'The database was sealed on another server. If it has moved here, start a process: it ends the seal. If it was restored, run npm run recover -- switched first.',
    )
  const changed = await sealDatabase(sql, false, BY)
  if (values.json) print(JSON.stringify({ sealed: false, changed, waits_for: [] }))
  if (!changed) throw new ConfigError('The database was not sealed.')
  if (!values.json) print('The seal is ended.')
}

async function sealAndWait({ sql, values }: Recover): Promise<void> {
  const wait_s = waitOf(values.wait)
  if (!values.json && !values.yes)
    await requireYes(
      'All requests are refused and no job starts, until the database has moved. Is that right?',
    )
  const changed = await sealDatabase(sql, true, BY)
  if (!changed && !(await isSealed(sql)))
    throw new ConfigError(
      'A switch of the database is being recorded. Seal it after that. See: npm run recover',
    )
  if (!values.json)
    print(
      'The database is sealed, and stays so if this command is stopped: requests are refused, and no job starts. Waiting until nothing is written any more.',
    )
  const waits_for = await waitForWrites(sql, wait_s, values.json ? () => {} : print)
  if (values.json) print(JSON.stringify({ sealed: true, changed, waits_for }))
  if (waits_for.length > 0)
    throw new ConfigError(
      `These may still write: ${waits_for.join(', ')}. Do not move the database. End them, and run npm run recover -- seal again: it ignores processes whose last heartbeat is more than a minute old. A process is also named while no witness has stored the seal: see its log.`,
    )
  if (!values.json) print('Nothing is written any more. Move the database now.')
}

function waitOf(text: string | undefined): number {
  const wait_s = text === undefined ? DEFAULT_WAIT_S : Number(text)
  if (!Number.isInteger(wait_s) || wait_s < 0)
    throw new ConfigError('--wait must be a number of seconds. See --help.')
  return wait_s
}

/** Waits until nothing can write any more. Returns what still may after the time. Errors: the seal was ended. */
async function waitForWrites(sql: Sql, wait_s: number, progress: (line: string) => void): Promise<string[]> {
  const began_at = performance.now()
  let progress_at = began_at + PROGRESS_INTERVAL_MS
  for (;;) {
    const waited_ms = performance.now() - began_at
    if (!(await isSealed(sql)))
      throw new ConfigError(
        'The seal was ended meanwhile, by seal --undo or by a switch of the database. Do not move the database. See: npm run recover',
      )
    // A process that is seen no more since the seal may hang and continue: it is waited for.
    const writers = await findWriters(sql, LOST_AFTER_S + waited_ms / 1000)
    if (writers.length === 0 || waited_ms >= wait_s * 1000) return writers
    if (performance.now() >= progress_at) {
      progress(`Waiting for ${writers.join(', ')}.`)
      progress_at = performance.now() + PROGRESS_INTERVAL_MS
    }
    await sleep(200)
  }
}

/**
 * Names what may still write, as texts for a terminal: processes that were seen within this time, or else commands and
 * the open transactions of anybody.
 */
export async function findWriters(sql: Sql, seen_within_s = LOST_AFTER_S): Promise<string[]> {
  const processes = await findUndrainedProcesses(sql, seen_within_s)
  const writers = processes.length > 0 ? processes : await findOpenWriters(sql)
  // A process chooses the name of its host, and a session its own name.
  return writers.map((name) => terminalText(name))
}
