// Lists read many rows, so they are kept from taking all connections, all memory or too much time.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { connectDatabase, countPendingStatements } from '#core/pool.ts'
import { databaseCode, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'
import type { Credentials } from '#domain/api-keys.ts'
import type { CallerLimit } from './limit.ts'
import { answerSent } from './abandoned.ts'

const tooMany = () =>
  new AppError('rate_limited', { retry_after_s: 1, message: 'Too many lists at once: ask for fewer.' })
/** The lists of one key that are under way, until their answers have been received. */
const KEY_LIMITS = { running: 8, queue: { waiting: 256, wait_ms: 5_000, refuse: tooMany } }
/** The lists of one tenant that wait for its share of the long lane's connections. */
const TENANT_QUEUE = { waiting: 256, wait_ms: 3_000, refuse: tooMany }
/** The lists of all tenants that wait for a connection of the long lane. */
const LONG_LANE_QUEUE = {
  waiting: 256,
  wait_ms: 2_000,
  refuse: () => new AppError('overloaded', { message: 'Too many lists wait for the database.' }),
}
/** The time that a statement gets in the quick lane, where others may wait behind it, and in the long one. */
const QUICK_TIMEOUT_MS = 100
const LONG_TIMEOUT_MS = 2_000
/** Lists that run or wait in the quick lane. */
const MAX_QUICK_STATEMENTS = 2_000
/** After a long list, all lists of that tenant go straight to the long lane for this time. */
const LONG_LANE_MS = 30_000
const CANCELED_STATEMENT = '57014'
/**
 * In the long lane, and when a waiting request looks again, database time counts towards the rate limit: after the
 * first `UNCHARGED_MS`, one request for each `MS_PER_REQUEST`.
 */
const UNCHARGED_MS = 20
const MS_PER_REQUEST = 5

/**
 * Returns what `ask` reads over connections that only lists use. Throws `rate_limited` when the key has too many lists
 * under way or has used up its rate limit by earlier ones, and `overloaded` when the list takes too long. `again`: the
 * request has asked before, so what it takes is charged in the quick lane too. `looks_again`: who asks does not answer
 * this yet, so the list is over.
 */
export type RunList = <T>(
  request: ListRequest,
  reply: FastifyReply,
  query: (sql: Sql) => Promise<T>,
  waiting?: { is_repeat: boolean; willRepeat: (found: T) => boolean },
) => Promise<T>

/** A request for a list, and who asks: the time counts for the key, and the connections are shared by the tenants. */
export type ListRequest = Pick<FastifyRequest, 'raw'> & {
  credentials: Pick<Credentials, 'tenant_id' | 'key_id'>
}

/** A list that is answered as it is found. */
const SINGLE_READ = { is_repeat: false, willRepeat: () => false }

/** The connections of lists, in two lanes: quick statements share connections, long ones have one each. */
type ListLanes = { quick: Sql; long: Sql }

/** How many of `pool` connections the lanes have. */
export function listConnections(pool: number): { quick: number; long: number } {
  const all = Math.max(2, Math.ceil(pool / 4))
  const quick = Math.ceil(all / 3)
  return { quick, long: all - quick }
}

export function connectLists(url: string, pool: number, name: string): ListLanes {
  const { quick, long } = listConnections(pool)
  const connect = (max: number, statement_timeout_ms: number) =>
    connectDatabase(url, { max, application_name: `${name}-lists`, statement_timeout_ms })
  return { quick: connect(quick, QUICK_TIMEOUT_MS), long: connect(long, LONG_TIMEOUT_MS) }
}

/** `most`: the connections of the long lane. Without a quick one all lists are long. */
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
        // Earlier lists may have used up the rate limit.
        limit(credentials, reply, 0)
        const result = read(credentials, socket, query, is_repeat)
        result.then(resolve, reject)
        // A statement runs on after its client has disconnected, and an answer takes memory until it is sent: both
        // count as under way.
        const found = await Promise.allSettled([result])
        if (found[0].status === 'rejected' || !willRepeat(found[0].value)) await answerSent(reply, socket)
      }).catch(reject)
    })
  }
}

/** Reads a list in the quick lane, or in the long one when it takes too long there. */
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
  // No tenant gets all of them, if there are several.
  const tenantGates = createGates({ running: Math.max(1, max_long - 1), queue: TENANT_QUEUE })
  // One statement for each connection: a second one would wait behind the first.
  const connection = createGate({ running: max_long, queue: LONG_LANE_QUEUE })
  /** Until when the lists of a tenant go straight to the long lane. */
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
        throw new AppError('overloaded', { message: 'Too many lists wait for the database.' })
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
      return await connection(async () => {
        const started_at = performance.now()
        try {
          return await query(lanes.long)
        } catch (error) {
          if (databaseCode(error) !== CANCELED_STATEMENT) throw error
          throw new AppError('overloaded', {
            message: 'The list took too long: narrow it, for example by a shorter time or a customer.',
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

/** Throws when the caller has left while its list waited. */
function checkConnected(socket: Socket): void {
  if (socket.destroyed) throw new AppError('request_timeout')
}
