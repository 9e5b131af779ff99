// `npm run recover -- new-installation`: makes a copy of a database an installation of its own.
import { ConfigError } from '#core/config.ts'
import { parseDatabaseUrl, serverNames } from '#core/postgres/address.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { drawInstallation, findDatabaseCopy, type DatabaseCopy } from '#domain/switches/installation.ts'
import { requireReason } from '../arguments.ts'
import { requireYes } from '../ask.ts'
import { print, terminalText } from '../print.ts'
import type { Recover } from './options.ts'

export async function newInstallation({ sql, config, values }: Recover): Promise<void> {
  const reason = requireReason(values)
  const described = await findDatabaseCopy(sql)
  assertUnused(described)
  const { servers, database = '' } = parseDatabaseUrl(config.DATABASE_URL!)
  if (!values.json && !values.yes)
    await requireYes(
      `The database "${database}" at ${serverNames({ servers })}, a copy of the installation ${described.installation} with a newest change of ${described.newest_at}, becomes another installation. Its original must be another database. Is that right?`,
    )
  const drawn = await drawInstallation(sql, { described, reason }, commandActor('npm run recover', null))
  if ('changed' in drawn) {
    assertUnused(drawn.changed)
    throw new ConfigError(
      'The database has changed since the question: nothing was done. Check that DATABASE_URL names the copy, and run this again.',
    )
  }
  const { from, to } = drawn
  if (values.json) return print(JSON.stringify({ from, to }))
  print(`The installation ${from} is now ${to}. All jobs wait.`)
  print('Before you start it: REDIS_URL, WITNESS_URL and the credentials of the providers of the copy.')
  print('Before npm run recover -- release --messages discard: disable the webhook endpoints.')
}

function assertUnused({ processes }: DatabaseCopy): void {
  if (processes.length > 0)
    throw new ConfigError(
      `The database is in use, or was within the last minute: ${terminalText(processes.join(', '))}. Nothing was done: only a copy that nothing uses may become another installation. If DATABASE_URL names the copy, stop them and wait a minute.`,
    )
}
