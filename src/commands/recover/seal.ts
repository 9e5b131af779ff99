// `npm run recover -- seal`: stops all writes before the database moves to another server.
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { findUndrainedProcesses, LOST_AFTER_S } from '#domain/operations/processes.ts'
import { isBeingWritten } from '#domain/switches/find.ts'
import { sealDatabase } from '#domain/switches/release.ts'
import { requireYes } from '../ask.ts'
import { print } from '../print.ts'
import type { Recover } from './options.ts'

/** Longer than the calls to providers. */
const DEFAULT_WAIT_S = 120
const PROGRESS_INTERVAL_MS = 5_000

export async function seal({ sql, values }: Recover): Promise<void> {
  const wait_s = waitOf(values.wait)
  if (!values.undo && !values.json && !values.yes)
    await requireYes(
      'All requests are refused and no job starts, until the database has moved. Is that right?',
    )
  const changed = await sealDatabase(sql, !values.undo, commandActor('npm run recover', null))
  const waits_for = values.undo ? [] : await waitForWrites(sql, wait_s, values.json ? () => {} : print)
  if (values.json) print(JSON.stringify({ sealed: !values.undo, changed, waits_for }))
  if (values.undo && !changed) throw new ConfigError('The database was not sealed.')
  if (waits_for.length > 0)
    throw new ConfigError(
      `The database is sealed, but these may still write: ${waits_for.join(', ')}. Do not move the database yet: stop them, and run npm run recover -- seal again. A process that ended without a report counts as ended after a minute.`,
    )
  if (values.json) return
  print(
    values.undo
      ? 'The seal is ended.'
      : 'Sealed: requests are refused, no job runs, and nothing is written any more. Move the database now.',
  )
}

function waitOf(text: string | undefined): number {
  const wait_s = text === undefined ? DEFAULT_WAIT_S : Number(text)
  if (!Number.isInteger(wait_s) || wait_s < 0)
    throw new ConfigError('--wait must be a number of seconds. See --help.')
  return wait_s
}

/** Waits until nothing can write any more. Returns what still may after the time. */
async function waitForWrites(sql: Sql, wait_s: number, progress: (line: string) => void): Promise<string[]> {
  const began_at = performance.now()
  let progress_at = began_at + PROGRESS_INTERVAL_MS
  for (;;) {
    const waited_ms = performance.now() - began_at
    // A process that is seen no more since the seal may hang and continue: it is waited for.
    const writers = await findUndrainedProcesses(sql, LOST_AFTER_S + waited_ms / 1000)
    // Commands, and statements of processes that were killed.
    if (writers.length === 0 && (await isBeingWritten(sql)))
      writers.push('an open transaction of the database')
    if (writers.length === 0 || waited_ms >= wait_s * 1000) return writers
    if (performance.now() >= progress_at) {
      progress(`Waiting for ${writers.join(', ')}.`)
      progress_at = performance.now() + PROGRESS_INTERVAL_MS
    }
    await sleep(200)
  }
}
