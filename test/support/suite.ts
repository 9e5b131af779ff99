// How a test file gets the PostgreSQL of the suite, which Vitest's main process starts for the first one that asks.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { inject } from 'vitest'

let url_request: Promise<string> | undefined

/** The URL of its superuser, in a database that holds nothing. `createDatabase` makes a database for a test file. */
export function postgresUrl(): Promise<string> {
  return (url_request ??= requestUrl())
}

async function requestUrl(): Promise<string> {
  const answer = await text(connect(inject('servers_socket')))
  const { url, error } = JSON.parse(answer) as { url?: string; error?: string }
  if (url === undefined) throw new Error(`The PostgreSQL of the tests does not start: ${error}`)
  return url
}
