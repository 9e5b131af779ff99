// Lists read many rows: limits keep them from taking all connections, all memory or too much time.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { connectDatabase, countPendingStatements } from '#core/pool.ts'
import { databaseCode, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'
import type { Credentials } from '#domain/api-keys.ts'
import type { CallerLimit } from './limit.ts'
import { answerSent } from './answer-sent.ts'

const tooManyLists = () =>
  new AppError('rate_limited', {
    limited_by: 'lists',
    retry_after_s: 1,
    message: 'Too many lists at once: request fewer.',
  })
/** Limits the lists in progress of one key. A list is in progress until its answer is sent. */
const KEY_LIMITS = { running: 8, queue: { waiting: 256, wait_ms: 5_000, refuse: tooManyLists } }
/** Limits the waiting lists of one tenant in the long lane, in which a tenant may not use all connections. */
const TENANT_QUEUE = { waiting: 256, wait_ms: 3_000, refuse: tooManyLists }
/** Limits the lists of all tenants that wait for a connection of the long lane. */
const LONG_LANE_QUEUE = {
  waiting: 256,
  wait_ms: 2_000,
  refuse: () =>
    new AppError('overloaded', {
      limited_by: 'lists',
      message: 'Too many lists wait for the database: retry later.',
    }),
}
/** The statement timeouts of the quick lane, where statements share connections, and of the long lane. */
const QUICK_TIMEOUT_MS = 100
const LONG_TIMEOUT_MS = 2_000
/** The maximum number of lists that run or wait in the quick lane. */
const MAX_QUICK_STATEMENTS = 2_000
/** How long the lists of a tenant skip the quick lane after a slow list. */
const LONG_LANE_MS = 30_000
const CANCELED_STATEMENT = '57014'
/**
 * The database time of a list counts towards the rate limit if the list runs in the long lane, or if it is a repeated
 * read by a waiting request. The first `UNCHARGED_MS` are free; then every `MS_PER_REQUEST` counts as one request.
 */
const UNCHARGED_MS = 20
const MS_PER_REQUEST = 5

/**
 * Runs `query` over connections that only lists use. Throws `rate_limited` if the key has too many lists in progress
 * or has exhausted its rate limit, and `overloaded` if the list takes too long. `is_repeat`: whether this is a
 * repeated read by a waiting request. Its time is charged in the quick lane too. `willRepeat`: whether the request
 * will read again instead of answering with this result. If so, the list is in progress only until the result is read.
 */
export type RunList = <T>(
  request: ListRequest,
  reply: FastifyReply,
  query: (sql: Sql) => Promise<T>,
  waiting?: { is_repeat: boolean; willRepeat: (found: T) => boolean },
) => Promise<T>

/**
 * A request for a list, with its caller. The database time is charged to the key. The connections are limited by
 * tenant.
 */
export type ListRequest = Pick<FastifyRequest, 'raw'> & {
  credentials: Pick<Credentials, 'tenant_id' | 'key_id'>
}

/** A list that is read once. */
const SINGLE_READ = { is_repeat: false, willRepeat: () => false }

/**
 * The connections of lists, in two lanes: quick statements share connections, and each long statement has a connection
 * of its own.
 */
type ListLanes = { quick: Sql; long: Sql }

/**
 * The number of connections of each lane. `pool`: the number of all connections of the process, which includes them.
 */
export function listConnections(pool: number): { quick: number; long: number } {
  const all = Math.max(2, Math.ceil(pool / 4))
  const quick = Math.ceil(all / 3)
  return { quick, long: all - quick }
}

export function connectLists(url: string, pool: number, name: string): ListLanes {
  const { quick, long } = listConnections(pool)
  const connect = (max: number, statement_timeout_ms: number) =>
    connectDatabase(url, { max, application_name: `${name}-lists`, pool_name: 'lists', statement_timeout_ms })
  return { quick: connect(quick, QUICK_TIMEOUT_MS), long: connect(long, LONG_TIMEOUT_MS) }
}

/** `max_long`: the number of connections of the long lane. Without a quick lane, all lists use the long lane. */
export function createListRunner(
  lanes: Pick<ListLanes, 'long'> & Partial<ListLanes>,
  max_long: number,
  limit: CallerLimit,
): RunList {
  const keyGates = createGates(KEY_LIMITS)
  const read = createListReader(lanes, max_long, limit)

  return async (request, reply, query, { is_repeat, willRepeat } = SINGLE_READ) => {
    const { credentials } = request
    const { socket } = request.raw
    return await new Promise((resolve, reject) => {
      keyGates(credentials.key_id, async () => {
        checkConnected(socket)
        // Earlier lists may have exhausted the rate limit.
        limit(credentials, reply, 0)
        const result = read(credentials, socket, query, is_repeat)
        result.then(resolve, reject)
        // The list counts as in progress until its statement has ended and its answer is sent: a statement continues
        // after its caller has disconnected, and an answer occupies memory until it is sent.
        const found = await Promise.allSettled([result])
        if (found[0].status === 'rejected' || !willRepeat(found[0].value)) await answerSent(reply, socket)
      }).catch(reject)
    })
  }
}

/** Reads a list in the quick lane, or in the long lane if it takes too long there. */
type ReadList = <T>(
  credentials: ListRequest['credentials'],
  socket: Socket,
  query: (sql: Sql) => Promise<T>,
  is_repeat: boolean,
) => Promise<T>

function createListReader(
  lanes: Pick<ListLanes, 'long'> & Partial<ListLanes>,
  max_long: number,
  limit: CallerLimit,
): ReadList {
  // If there are several connections, one tenant cannot occupy all of them.
  const tenantGates = createGates({ running: Math.max(1, max_long - 1), queue: TENANT_QUEUE })
  // One statement per connection: a second statement would wait for the first.
  const connectionGate = createGate({ running: max_long, queue: LONG_LANE_QUEUE })
  /** The time until which the lists of a tenant skip the quick lane. */
  const long_until = new Map<string, number>()

  function charge(credentials: ListRequest['credentials'], elapsed_ms: number): void {
    if (elapsed_ms > UNCHARGED_MS)
      limit.charge(credentials, Math.floor((elapsed_ms - UNCHARGED_MS) / MS_PER_REQUEST))
  }

  return async (credentials, socket, query, is_repeat) => {
    const { tenant_id } = credentials
    if (lanes.quick !== undefined && (long_until.get(tenant_id) ?? 0) < performance.now()) {
      long_until.delete(tenant_id)
      if (countPendingStatements(lanes.quick) > MAX_QUICK_STATEMENTS)
        throw new AppError('overloaded', {
          limited_by: 'lists',
          message: 'Too many lists wait for the database: retry later.',
        })
      const started_at = performance.now()
      try {
        const found = await query(lanes.quick)
        if (is_repeat) charge(credentials, performance.now() - started_at)
        return found
      } catch (error) {
        if (databaseCode(error) !== CANCELED_STATEMENT) throw error
        long_until.set(tenant_id, performance.now() + LONG_LANE_MS)
      }
    }
    return await tenantGates(tenant_id, async () => {
      checkConnected(socket)
      return await connectionGate(async () => {
        const started_at = performance.now()
        try {
          return await query(lanes.long)
        } catch (error) {
          if (databaseCode(error) !== CANCELED_STATEMENT) throw error
          throw new AppError('overloaded', {
            limited_by: 'lists',
            message: 'The list took too long: filter it, for example by a shorter period or by customer.',
            cause: error,
          })
        } finally {
          const elapsed_ms = performance.now() - started_at
          if (elapsed_ms > QUICK_TIMEOUT_MS) long_until.set(tenant_id, performance.now() + LONG_LANE_MS)
          charge(credentials, elapsed_ms)
        }
      })
    })
  }
}

/** Throws if the caller has disconnected while its list waited. */
function checkConnected(socket: Socket): void {
  if (socket.destroyed) throw new AppError('request_timeout')
}
