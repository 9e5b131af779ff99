// `npm run recover -- new-installation`: makes a copy of a database an installation of its own.
import { ConfigError } from '#core/config.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { drawInstallation, findUsers } from '#domain/switches/installation.ts'
import { requireReason } from '../arguments.ts'
import { confirm } from '../ask.ts'
import { parseDatabaseUrl, serverNames } from '#core/postgres/address.ts'
import { print } from '../print.ts'
import type { Recover } from './options.ts'

export async function newInstallation({ sql, config, values }: Recover): Promise<void> {
  const reason = requireReason(values)
  const users = await findUsers(sql)
  if (users.length > 0)
    throw new ConfigError(
      `The database is in use, or was within the last minute: ${users.join(', ')}. Only a copy that nothing uses may become another installation. If DATABASE_URL names the copy, stop them and wait a minute.`,
    )
  const { servers, database = '' } = parseDatabaseUrl(config.DATABASE_URL!)
  if (!values.json && !values.yes)
    await confirm(
      `The database "${database}" at ${serverNames({ servers })} becomes another installation. Its original must be another database. Is that right?`,
    )
  const { from, to } = await drawInstallation(sql, reason, commandActor('npm run recover', null))
  if (values.json) return print(JSON.stringify({ from, to }))
  print(`The installation ${from} is now ${to}. All jobs wait.`)
  print('Before you start it: REDIS_URL, WITNESS_URL and the credentials of the providers of the copy.')
  print('Before npm run recover -- release --messages discard: disable the webhook endpoints.')
}
