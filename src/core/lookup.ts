// Finds the addresses of names that tenants give: bounded in time, and no thread waits for a slow name server.
import { CONNREFUSED, lookup, NODATA, NOTFOUND, Resolver } from 'node:dns/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGate } from './gate.ts'

/** All addresses of a name, IPv4 before IPv6. Rejects when it has none, or when nobody knows. */
export type Lookup = (name: string) => Promise<string[]>

/** Of each question to a name server: twice, the second time for twice as long. */
const DNS_TIMEOUT_MS = 1_000
/** Names that are looked up at once. */
const MAX_CONCURRENT_NAMES = 5_000
const LOCALHOST = /^(?:.+\.)?localhost\.?$/i
const LOOPBACK = ['127.0.0.1', '::1']

/**
 * `getaddrinfo` cannot be broken off and keeps one of the few threads of the process, which the names of our own
 * servers need too. So of tenants' names it is asked for one at a time, until it has really answered. Who waits here
 * gives up within the deadline of any caller.
 */
const systemGate = createGate({
  running: 1,
  queue: { waiting: 10, wait_ms: 1_000, refuse: () => new Error('the system is busy with other names') },
})

/**
 * Asks the name servers of this machine. With `hosts` also the rest of what its system knows: /etc/hosts and search
 * domains; only for deployments that allow private addresses. Those questions are only asked when the name servers know
 * no such name, or there are none; and one at a time in a process, so that one is refused while too many others wait.
 */
export function createLookup({
  hosts,
  servers,
  system = lookupInSystem,
}: {
  hosts: boolean
  /** Name servers, `address:port`, instead of those of this machine. */
  servers?: string[]
  /** Instead of `getaddrinfo`. */
  system?: Lookup
}): Lookup {
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const pending_lookups = new Map<string, Promise<string[]>>()

  async function resolveName(name: string): Promise<string[]> {
    // They are loopback whatever a name server says (RFC 6761).
    if (LOCALHOST.test(name)) return LOOPBACK
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (addresses.length > 0) return addresses
    if (hosts && answers.every(isNotFound)) return await systemGate(() => system(name))
    throw new Error(`no address of ${name}`)
  }

  // Many connections to one name that begin together take one question.
  return (name) => {
    const pending_lookup = pending_lookups.get(name)
    if (pending_lookup === undefined && pending_lookups.size >= MAX_CONCURRENT_NAMES)
      return Promise.reject(new Error('too many names are looked up at once'))
    const pending = pending_lookup ?? resolveName(name).finally(() => pending_lookups.delete(name))
    pending_lookups.set(name, pending)
    return pending
  }
}

/** The same, or a rejection after `limit_ms`. */
export async function lookupWithin(lookup: Lookup, name: string, limit_ms: number): Promise<string[]> {
  const finished = new AbortController()
  const late = sleep(limit_ms, undefined, { signal: finished.signal }).then(() => {
    throw new Error(`no answer about ${name} within ${limit_ms} ms`)
  })
  try {
    return await Promise.race([lookup(name), late])
  } finally {
    finished.abort()
  }
}

async function lookupInSystem(name: string): Promise<string[]> {
  return (await lookup(name, { all: true, order: 'ipv4first' })).map(({ address }) => address)
}

function isNotFound(answer: PromiseSettledResult<string[]>): boolean {
  const codes: unknown[] = [NOTFOUND, NODATA, CONNREFUSED]
  return answer.status === 'rejected' && codes.includes((answer.reason as NodeJS.ErrnoException).code)
}
