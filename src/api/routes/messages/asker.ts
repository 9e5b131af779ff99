// Who asks for messages: a request, the memory that its messages take, which is bounded, and the templates that it reads.
import type { FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'
import { whileConnected } from '#core/leaving.ts'
import { findEmailDomains, findSmsSenders } from '#domain/tenants.ts'
import { findTemplate } from '#domain/templates/find.ts'
import type { Template } from '#domain/templates/template.ts'
import { createMemoryBudget } from '../../room.ts'

/**
 * What this process holds at once of messages that are being accepted, in bytes as they came or were rendered. Each is there
 * several times: as it came, sealed, and in its statement.
 */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024
/** Two of the largest: no tenant keeps out all others. */
export const MAX_BUFFERED_BYTES_PER_TENANT = MAX_BUFFERED_BYTES / 2
/** What takes no more always finds room, and counts as nothing: there is a bound on how many wait to be written. */
const UNCOUNTED_BYTES = 8 * 1024

/** Takes room for so many bytes more. Throws `overloaded` when that would be too many, for the tenant or for the process. */
export type ReserveBytes = (bytes: number) => void

/** Does `work` of a tenant while `bytes` are held, and what it takes beyond them. Throws `overloaded`. */
type WithMemory = <T>(
  tenant_id: string,
  bytes: number,
  work: (reserve: ReserveBytes) => Promise<T>,
) => Promise<T>

export type Requester = {
  tenant_id: string
  /**
   * Does `work` with the template of this name or id; one at a time of the request, so that a batch takes one place in the
   * queue of its tenant. Rejects when the caller has left.
   */
  withTemplate: <T>(
    name_or_id: string,
    work: (template: Template | undefined, signal: AbortSignal) => Promise<T>,
  ) => Promise<T>
  /** The domains that it may write from; null: those of the installation. As they were a second ago at most. */
  emailDomains: () => Promise<string[] | null>
  /** The senders of SMS that it may use; null: any. Also as they were a second ago at most. */
  smsSenders: () => Promise<string[] | null>
  /** Does `work` while the body of the request is held, and what it takes beyond. Throws `overloaded`. */
  withMemory: <T>(work: (reserve: ReserveBytes) => Promise<T>) => Promise<T>
}

/** Who makes a request. All of this process share the room of `hold`. */
export type RequesterOf = (request: FastifyRequest) => Requester

/** The messages of one request that wait for their template: there are never more. */
const RENDERS = {
  running: 1,
  queue: {
    waiting: 100,
    wait_ms: 15_000,
    refuse: () =>
      new AppError('overloaded', { message: 'The templates of this request took too long to render.' }),
  },
}

export function createRequesters(sql: Sql): RequesterOf {
  const withMemory = createMemoryLimiter()
  const domainsOf = cacheBriefly((tenant_id) => findEmailDomains(sql, tenant_id))
  const sendersOf = cacheBriefly((tenant_id) => findSmsSenders(sql, tenant_id))
  return (request) => {
    const {
      credentials: { tenant_id },
      body_bytes = 0,
    } = request
    const oneAtATime = createGate(RENDERS)
    // Only one is kept: each can be large.
    let last: { name_or_id: string; template: Template | undefined } | undefined
    return {
      tenant_id,
      withTemplate: (name_or_id, work) =>
        whileConnected(request, (signal) =>
          oneAtATime(
            async () => {
              if (last?.name_or_id !== name_or_id)
                last = { name_or_id, template: await findTemplate(sql, tenant_id, name_or_id) }
              return await work(last.template, signal)
            },
            { signal },
          ),
        ),
      emailDomains: () => domainsOf(tenant_id),
      smsSenders: () => sendersOf(tenant_id),
      withMemory: (work) => withMemory(tenant_id, body_bytes, work),
    }
  }
}

const CACHE_TTL_MS = 1_000
const MAX_CACHED_TENANTS = 10_000

function cacheBriefly(
  find: (tenant_id: string) => Promise<string[] | null>,
): (tenant_id: string) => Promise<string[] | null> {
  const cache = new Map<string, { until: number; found: Promise<string[] | null> }>()
  return (tenant_id) => {
    const now = performance.now()
    const cached = cache.get(tenant_id)
    if (cached !== undefined && cached.until > now) return cached.found
    const found = find(tenant_id)
    // One that could not be read is read again.
    found.catch(() => cache.delete(tenant_id))
    cache.delete(tenant_id)
    cache.set(tenant_id, { until: now + CACHE_TTL_MS, found })
    const [oldest] = cache.keys()
    if (cache.size > MAX_CACHED_TENANTS) cache.delete(oldest!)
    return found
  }
}

export function createMemoryLimiter(): WithMemory {
  const budget = createMemoryBudget({ bytes: MAX_BUFFERED_BYTES, per_tenant: MAX_BUFFERED_BYTES_PER_TENANT })
  return async (tenant_id, bytes, work) => {
    let total = 0
    let counted = 0
    const reserve = (more: number) => {
      total += more
      if (total <= UNCOUNTED_BYTES) return
      if (!budget.reserve(tenant_id, total - counted)) {
        total -= more
        throw new AppError('overloaded', {
          message: 'Too many large messages at once. Ask again with the same key, or in smaller batches.',
        })
      }
      counted = total
    }
    try {
      reserve(bytes)
      return await work(reserve)
    } finally {
      if (counted > 0) budget.release(tenant_id, counted)
    }
  }
}
