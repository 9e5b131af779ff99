// Resolves host names of tenants, with time limits and without blocking threads for slow name servers.
import { CONNREFUSED, lookup, NODATA, NOTFOUND, Resolver } from 'node:dns/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGate } from './gate.ts'

/** All addresses of a host name, IPv4 before IPv6. Rejects if there is none or the name servers do not answer. */
export type Lookup = (name: string) => Promise<string[]>

/** The timeout of a query. An unanswered query is sent once more, with twice the timeout. */
const DNS_TIMEOUT_MS = 1_000
/** The maximum number of concurrent lookups. */
const MAX_CONCURRENT_NAMES = 5_000
const LOCALHOST = /^(?:.+\.)?localhost\.?$/i
const LOOPBACK = ['127.0.0.1', '::1']

/**
 * `getaddrinfo` cannot be canceled, and each call blocks one of the few threads that also resolve the host names of the
 * process's own servers. So `getaddrinfo` is called for only one host name of a tenant's URL at a time. A caller waits
 * at most `wait_ms`, which is less than the time limit of any lookup.
 */
const systemGate = createGate({
  running: 1,
  queue: {
    waiting: 10,
    wait_ms: 1_000,
    refuse: () => new Error('the system resolver is busy with other names'),
  },
})

/**
 * Creates a lookup that queries the name servers of this machine. With `hosts`, for deployments that allow private
 * addresses, it also uses the system resolver (/etc/hosts, search domains): only for names that the name servers do
 * not find, one name at a time. A lookup is refused while too many others wait for the system resolver.
 */
export function createLookup({
  hosts,
  servers,
  system = lookupInSystem,
}: {
  hosts: boolean
  /** Name servers, `address:port`, instead of those of this machine. */
  servers?: string[]
  /** The system resolver. Default: `getaddrinfo`. */
  system?: Lookup
}): Lookup {
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const pending_lookups = new Map<string, Promise<string[]>>()

  async function resolveName(name: string): Promise<string[]> {
    // These names are always loopback (RFC 6761).
    if (LOCALHOST.test(name)) return LOOPBACK
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (addresses.length > 0) return addresses
    if (hosts && answers.every(isNotFound)) return await systemGate(() => system(name))
    throw new Error(`the name ${name} has no address`)
  }

  // Concurrent connections to one name share one lookup.
  return (name) => {
    const pending_lookup = pending_lookups.get(name)
    if (pending_lookup === undefined && pending_lookups.size >= MAX_CONCURRENT_NAMES)
      return Promise.reject(new Error('too many names are looked up at once'))
    const pending = pending_lookup ?? resolveName(name).finally(() => pending_lookups.delete(name))
    pending_lookups.set(name, pending)
    return pending
  }
}

/** A lookup that rejects after `limit_ms`. */
export async function lookupWithin(lookup: Lookup, name: string, limit_ms: number): Promise<string[]> {
  const finished = new AbortController()
  const timed_out = sleep(limit_ms, undefined, { signal: finished.signal }).then(() => {
    throw new Error(`no answer for the name ${name} within ${limit_ms} ms`)
  })
  try {
    return await Promise.race([lookup(name), timed_out])
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
