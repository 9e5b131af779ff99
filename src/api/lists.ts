// Lists: what reads and answers many rows, kept from taking all connections, all memory and all of the time.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { connectDatabase, databaseCode, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'
import type { Limit } from './auth.ts'
import { createTurns } from './turns.ts'

const tooMany = () =>
  new AppError('rate_limited', { retry_after_s: 1, message: 'Too many lists at once: ask for fewer.' })
/** The lists of one key under way: what is read and is not yet with who asked. */
const OF_A_KEY = { running: 8, waiting: 256, wait_ms: 5_000, refuse: tooMany }
/** What a tenant has under way and waits for its share of the connections. */
const OF_A_TENANT = { waiting: 256, wait_ms: 3_000, refuse: tooMany }
/** How many wait for a connection, and for how long. */
const OF_ALL = { waiting: 256, wait_ms: 2_000, refuse: () => new AppError('overloaded') }
const STATEMENT_MS = 2_000
const CANCELED_STATEMENT = '57014'
/** A list counts as one request for so much time in the database each; the first is that of one request. */
const FREE_MS = 20
const MS_PER_REQUEST = 5
/** Who does not take the answer in this time is hung up on; before it in a pipeline may be one that waits. */
const TAKEN_MS = 60_000

/**
 * Answers with what `ask` reads, in the turn of who asks, over connections that only lists use. Throws `rate_limited` when
 * the key has too many lists under way, or has used up what it may ask by those before; `overloaded` when it takes too long.
 */
export type Lists = <T>(
  request: FastifyRequest,
  reply: FastifyReply,
  ask: (sql: Sql) => Promise<T>,
) => Promise<T>

/** How many of `pool` connections lists have. */
export function listConnections(pool: number): number {
  return Math.ceil(pool / 4)
}

/** The connections of lists: few, and their statements end soon. */
export function connectLists(url: string, pool: number): Sql {
  return connectDatabase(url, {
    max: listConnections(pool),
    application_name: 'sluice-api-lists',
    statement_timeout_ms: STATEMENT_MS,
  })
}

export function createLists(sql: Sql, pool: number, limit: Limit): Lists {
  const turn = createTurns(OF_A_KEY)
  const most = listConnections(pool)
  // Where there are several, no tenant has them all.
  const share = createTurns({ running: Math.max(1, most - 1), ...OF_A_TENANT })
  // One statement a connection: another sent behind it would wait for it.
  const connection = createGate({ running: most, ...OF_ALL })

  async function timed<T>(key_id: string, ask: (sql: Sql) => Promise<T>): Promise<T> {
    const began_at = performance.now()
    try {
      return await ask(sql)
    } catch (error) {
      if (databaseCode(error) !== CANCELED_STATEMENT) throw error
      throw new AppError('overloaded', {
        message: 'The list took too long: narrow it, for example by a shorter time or a customer.',
        cause: error,
      })
    } finally {
      const over_ms = performance.now() - began_at - FREE_MS
      if (over_ms > 0) limit.charge(key_id, Math.floor(over_ms / MS_PER_REQUEST))
    }
  }

  return async (request, reply, ask) => {
    const { key_id, tenant_id } = request.credentials
    const { socket } = request.raw
    return await new Promise((resolve, reject) => {
      turn(key_id, async () => {
        // What went before may have cost more than there was.
        limit(key_id, reply, 0)
        const asked = share(tenant_id, async () => {
          if (socket.destroyed) throw new AppError('request_timeout')
          return await connection(() => timed(key_id, ask))
        })
        asked.then(resolve, reject)
        // A statement runs on when who asked has hung up, and an answer takes memory until it has left.
        await Promise.allSettled([asked, taken(reply, socket)])
      }).catch(reject)
    })
  }
}

/** Resolves when the answer has left, or cannot any more. */
async function taken({ raw }: FastifyReply, socket: Socket): Promise<void> {
  if (raw.writableFinished || socket.destroyed) return
  await new Promise<void>((resolve) => {
    // Of a pipelined request the response has no socket until it is its turn, and does not hear of its end.
    const late = setTimeout(() => socket.destroy(), TAKEN_MS)
    const over = () => {
      clearTimeout(late)
      raw.off('finish', over)
      socket.off('close', over)
      resolve()
    }
    socket.setMaxListeners(0)
    raw.once('finish', over)
    socket.once('close', over)
  })
}
