// The Prefer header (RFC 7240): how long a request waits.
import type { FastifyRequest } from 'fastify'

const MAX_WAIT_S = 30

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`
/** The elements of the list; an unclosed quote extends to the end. */
const ELEMENTS = new RegExp(String.raw`(?:${QUOTED}|"[^]*$|[^,"])+`, 'g')
const TOKEN = String.raw`[\w!#$%&'*+.^\x60|~-]+`
/** The name and value of an element; parameters after it are ignored. */
const PREFERENCE = new RegExp(
  String.raw`^[ \t]*(${TOKEN})(?:[ \t]*=[ \t]*(${TOKEN}|${QUOTED}))?[ \t]*(?:;|$)`,
)

/** The preferred wait in milliseconds, and the value of `Preference-Applied`; undefined without a preference. */
type PreferredWait = { wait_ms: number; applied: string } | undefined

/**
 * How long a request waits for its job. `wait=N`: N seconds, at most 30. `respond-async` alone: not at all. An invalid
 * preference is ignored. Of several preferences with the same name, the first counts.
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

/** The values of the preferences, by name in lower case. A preference without a value has the value `''`. */
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
