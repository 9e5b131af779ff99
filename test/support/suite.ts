// Returns the suite's PostgreSQL, which Vitest's main process starts for the first test file that needs PostgreSQL.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { inject } from 'vitest'

let url_request: Promise<string> | undefined

/**
 * The URL of the suite's PostgreSQL with a superuser and an empty database. `createDatabase` creates a database for a
 * test file.
 */
export function postgresUrl(): Promise<string> {
  return (url_request ??= requestUrl())
}

async function requestUrl(): Promise<string> {
  const answer = await text(connect(inject('servers_socket')))
  const { url, error } = JSON.parse(answer) as { url?: string; error?: string }
  if (url === undefined) throw new Error(`The PostgreSQL of the tests does not start: ${error}`)
  return url
}
