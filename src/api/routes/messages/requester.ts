// The requester of messages: the templates and senders of its tenant, and the limited memory for its messages.
import type { FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'
import { whileConnected } from '#core/leaving.ts'
import { findEmailDomains, findSmsSenders } from '#domain/tenants.ts'
import { findTemplate } from '#domain/templates/find.ts'
import type { Template } from '#domain/templates/template.ts'
import { createMemoryBudget } from '../../memory-budget.ts'

/**
 * The limit of the bytes, as received or rendered, of all messages that this process is accepting. Each message is in
 * memory several times: as received, sealed, and in its statement.
 */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024
/** The same limit for one tenant, so that no tenant uses all memory. Two of the largest requests fit into it. */
export const MAX_BUFFERED_BYTES_PER_TENANT = MAX_BUFFERED_BYTES / 2
/**
 * A request with at most this many bytes is not counted: the limit for messages that wait to be written also limits the
 * memory of such requests.
 */
const UNCOUNTED_BYTES = 8 * 1024

/** Reserves more bytes. Throws `overloaded` if the tenant or the process exceeds its limit. */
export type ReserveBytes = (bytes: number) => void

/** Runs `work` of a tenant with `bytes` reserved; `work` may reserve more. Throws `overloaded`. */
type WithMemory = <T>(
  tenant_id: string,
  bytes: number,
  work: (reserve: ReserveBytes) => Promise<T>,
) => Promise<T>

export type Requester = {
  tenant_id: string
  /**
   * Runs `work` with the template of this name or id. The calls of one request run one at a time, so that a batch
   * occupies only one place in the queue of its tenant. Rejects if the caller disconnects.
   */
  withTemplate: <T>(
    name_or_id: string,
    work: (template: Template | undefined, signal: AbortSignal) => Promise<T>,
  ) => Promise<T>
  /** The domains from which the tenant may send; null: those of the installation. The result may be a second old. */
  emailDomains: () => Promise<string[] | null>
  /** The SMS senders that the tenant may use; null: any. The result may be a second old. */
  smsSenders: () => Promise<string[] | null>
  /** Runs `work` with the memory of the request body reserved; `work` may reserve more. Throws `overloaded`. */
  withMemory: <T>(work: (reserve: ReserveBytes) => Promise<T>) => Promise<T>
}

/** The requester of a request. All requesters of a process share its memory limit. */
export type RequesterOf = (request: FastifyRequest) => Requester

/** Limits the messages of one request that wait for their template. A batch has at most 100 messages. */
const RENDERS = {
  running: 1,
  queue: {
    waiting: 100,
    wait_ms: 15_000,
    refuse: () =>
      new AppError('overloaded', {
        limited_by: 'templates',
        message:
          'The templates of this request took too long to render: simplify them, or send smaller batches.',
      }),
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
    // Only the last template is cached: templates can be large.
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
    // A failed read is not cached.
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
          limited_by: 'message_memory',
          message: 'Too many large messages at once. Retry with the same key, or send smaller batches.',
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
