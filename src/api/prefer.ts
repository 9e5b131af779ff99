// The Prefer header (RFC 7240): how long a caller wants to wait.
import type { FastifyRequest } from 'fastify'

const MAX_WAIT_S = 30

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`
/** The elements of the list; an unclosed quote extends to the end. */
const ELEMENTS = new RegExp(String.raw`(?:${QUOTED}|"[^]*$|[^,"])+`, 'g')
const WORD = String.raw`[\w!#$%&'*+.^\x60|~-]+`
/** The name and value of an element; parameters after it are ignored. */
const PREFERENCE = new RegExp(String.raw`^[ \t]*(${WORD})(?:[ \t]*=[ \t]*(${WORD}|${QUOTED}))?[ \t]*(?:;|$)`)

/** For how many milliseconds a caller wants to wait, and `Preference-Applied`; undefined when nothing is preferred. */
type PreferredWait = { wait_ms: number; applied: string } | undefined

/**
 * How long a caller wants to wait for the job. `wait=N`: N seconds, at most 30. `respond-async` without it: not at all.
 * A preference that cannot be read is ignored; of several with one name the first counts.
 */
export function preferredWait(request: FastifyRequest): PreferredWait {
  const preferences = parsePreferences(String(request.headers.prefer ?? ''))
  const asynchronous = preferences.get('respond-async') === ''
  const wait_text = /^\d{1,9}$/.exec(preferences.get('wait') ?? '')?.[0]
  const seconds = wait_text === undefined ? undefined : Math.min(Number(wait_text), MAX_WAIT_S)
  const applied = [
    ...(asynchronous ? ['respond-async'] : []),
    ...(seconds === undefined ? [] : [`wait=${seconds}`]),
  ]
  return applied.length === 0 ? undefined : { wait_ms: (seconds ?? 0) * 1000, applied: applied.join(', ') }
}

/** Names in lower case; an absent value is the empty one. */
function parsePreferences(header: string): Map<string, string> {
  const preferences = new Map<string, string>()
  for (const [element] of header.matchAll(ELEMENTS)) {
    const [, name, value = ''] = PREFERENCE.exec(element) ?? []
    if (name === undefined || preferences.has(name.toLowerCase())) continue
    preferences.set(
      name.toLowerCase(),
      value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value,
    )
  }
  return preferences
}
