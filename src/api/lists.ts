// Lists read many rows, so they are kept from taking all connections, all memory or too much time.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { connectDatabase, statementsUnderWay } from '#core/pool.ts'
import { databaseCode, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'
import type { Credentials } from '#domain/api-keys.ts'
import type { CallerLimit } from './limit.ts'
import { answerTaken } from './taken.ts'

const tooMany = () =>
  new AppError('rate_limited', { retry_after_s: 1, message: 'Too many lists at once: ask for fewer.' })
/** The lists of one key that are under way, until their answers have been received. */
const OF_A_KEY = { running: 8, queue: { waiting: 256, wait_ms: 5_000, refuse: tooMany } }
/** The lists of one tenant that wait for its share of the long lane's connections. */
const OF_A_TENANT = { waiting: 256, wait_ms: 3_000, refuse: tooMany }
/** The lists of all tenants that wait for a connection of the long lane. */
const OF_ALL = {
  waiting: 256,
  wait_ms: 2_000,
  refuse: () => new AppError('overloaded', { message: 'Too many lists wait for the database.' }),
}
/** The time that a statement gets in the quick lane, where others may wait behind it, and in the long one. */
const QUICK_MS = 100
const LONG_MS = 2_000
/** Lists that run or wait in the quick lane. */
const MOST_QUICK = 2_000
/** After a long list, all lists of that tenant go straight to the long lane for this time. */
const STAYS_MS = 30_000
const CANCELED_STATEMENT = '57014'
/**
 * In the long lane, and when a waiting request looks again, database time counts towards the rate limit: after the
 * first `FREE_MS`, one request for each `MS_PER_REQUEST`.
 */
const FREE_MS = 20
const MS_PER_REQUEST = 5

/**
 * Returns what `ask` reads over connections that only lists use. Throws `rate_limited` when the key has too many lists
 * under way or has used up its rate limit by earlier ones, and `overloaded` when the list takes too long. `again`: the
 * request has asked before, so what it takes is charged in the quick lane too. `looks_again`: who asks does not answer
 * this yet, so the list is over.
 */
export type Lists = <T>(
  request: ListRequest,
  reply: FastifyReply,
  ask: (sql: Sql) => Promise<T>,
  waiting?: { again: boolean; looks_again: (found: T) => boolean },
) => Promise<T>

/** A request for a list, and who asks: the time counts for the key, and the connections are shared by the tenants. */
export type ListRequest = Pick<FastifyRequest, 'raw'> & {
  credentials: Pick<Credentials, 'tenant_id' | 'key_id'>
}

/** A list that is answered as it is found. */
const ANSWERS_AT_ONCE = { again: false, looks_again: () => false }

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
  return { quick: connect(quick, QUICK_MS), long: connect(long, LONG_MS) }
}

/** `most`: the connections of the long lane. Without a quick one all lists are long. */
export function createLists(
  lanes: Pick<ListLanes, 'long'> & Partial<ListLanes>,
  most: number,
  limit: CallerLimit,
): Lists {
  const of_a_key = createGates(OF_A_KEY)
  const read = createRead(lanes, most, limit)

  return async (request, reply, ask, { again, looks_again } = ANSWERS_AT_ONCE) => {
    const { credentials } = request
    const { socket } = request.raw
    return await new Promise((resolve, reject) => {
      of_a_key(credentials.key_id, async () => {
        refuseGone(socket)
        // Earlier lists may have used up the rate limit.
        limit(credentials, reply, 0)
        const asked = read(credentials, socket, ask, again)
        asked.then(resolve, reject)
        // A statement runs on after its client has disconnected, and an answer takes memory until it is sent: both
        // count as under way.
        const found = await Promise.allSettled([asked])
        if (found[0].status === 'rejected' || !looks_again(found[0].value)) await answerTaken(reply, socket)
      }).catch(reject)
    })
  }
}

/** Reads a list in the quick lane, or in the long one when it takes too long there. */
type Read = <T>(
  credentials: ListRequest['credentials'],
  socket: Socket,
  ask: (sql: Sql) => Promise<T>,
  again: boolean,
) => Promise<T>

function createRead(
  lanes: Pick<ListLanes, 'long'> & Partial<ListLanes>,
  most: number,
  limit: CallerLimit,
): Read {
  // No tenant gets all of them, if there are several.
  const of_a_tenant = createGates({ running: Math.max(1, most - 1), queue: OF_A_TENANT })
  // One statement for each connection: a second one would wait behind the first.
  const connection = createGate({ running: most, queue: OF_ALL })
  /** Until when the lists of a tenant go straight to the long lane. */
  const long_until = new Map<string, number>()

  function charge(credentials: ListRequest['credentials'], took_ms: number): void {
    if (took_ms > FREE_MS) limit.charge(credentials, Math.floor((took_ms - FREE_MS) / MS_PER_REQUEST))
  }

  return async (credentials, socket, ask, again) => {
    const { tenant_id } = credentials
    if (lanes.quick !== undefined && (long_until.get(tenant_id) ?? 0) < performance.now()) {
      long_until.delete(tenant_id)
      if (statementsUnderWay(lanes.quick) > MOST_QUICK)
        throw new AppError('overloaded', { message: 'Too many lists wait for the database.' })
      const began_at = performance.now()
      try {
        const found = await ask(lanes.quick)
        if (again) charge(credentials, performance.now() - began_at)
        return found
      } catch (error) {
        if (databaseCode(error) !== CANCELED_STATEMENT) throw error
        long_until.set(tenant_id, performance.now() + STAYS_MS)
      }
    }
    return await of_a_tenant(tenant_id, async () => {
      refuseGone(socket)
      return await connection(async () => {
        const began_at = performance.now()
        try {
          return await ask(lanes.long)
        } catch (error) {
          if (databaseCode(error) !== CANCELED_STATEMENT) throw error
          throw new AppError('overloaded', {
            message: 'The list took too long: narrow it, for example by a shorter time or a customer.',
            cause: error,
          })
        } finally {
          const took_ms = performance.now() - began_at
          if (took_ms > QUICK_MS) long_until.set(tenant_id, performance.now() + STAYS_MS)
          charge(credentials, took_ms)
        }
      })
    })
  }
}

/** Throws when the caller has left while its list waited. */
function refuseGone(socket: Socket): void {
  if (socket.destroyed) throw new AppError('request_timeout')
}
