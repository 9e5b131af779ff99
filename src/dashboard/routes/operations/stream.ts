// Server-sent events for operators: pauses, queue figures and the latest acts, as they change.
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { isHeadRequest } from '#core/listener.ts'
import { findPauses } from '#domain/jobs/pauses.ts'
import { listActs } from '#domain/operator-acts/act.ts'
import { findQueueFigures } from '#domain/operations/queues.ts'
import { requireOperator, type DashboardContext } from '../../context.ts'

const POLL_INTERVAL_MS = 1_000
/** Figures are updated every ten seconds, so not every poll reads them. */
const POLLS_PER_FIGURES = 5
/**
 * The interval of keep-alives, which are sent because proxies close idle connections. At the same interval, a stream
 * ends if its user is no longer an operator.
 */
const CHECK_INTERVAL_MS = 5_000
const MAX_STREAMS = 200
const MAX_STREAMS_PER_USER = 5
/** A client with more unread bytes has stalled. It is disconnected and may reconnect. */
const MAX_UNREAD_BYTES = 1024 * 1024

/** The events by name. `every_polls`: how many polls pass between two reads of an event. */
const TOPICS: { name: string; every_polls: number; find: (sql: Sql) => Promise<unknown> }[] = [
  { name: 'pauses', every_polls: 1, find: findPauses },
  { name: 'acts', every_polls: 1, find: async (sql) => listActs(sql, { limit: 20 }) },
  { name: 'queues', every_polls: POLLS_PER_FIGURES, find: findQueueFigures },
]

/** The open streams of operators. */
type Broadcast = {
  /** Throws `overloaded` or `rate_limited` when the user may not open another stream. */
  assertCapacity: (user_id: string) => void
  open: (stream: ServerResponse, user_id: string) => void
  has: (stream: ServerResponse) => boolean
  end: (stream: ServerResponse) => void
  close: () => void
}

/** Queries the database once for all streams, and not at all while none is open. */
function createBroadcast({ operatorSql, log }: Pick<DashboardContext, 'operatorSql' | 'log'>): Broadcast {
  /** The user of each stream. */
  const streams = new Map<ServerResponse, string>()
  const last_sent = new Map<string, string>()
  let polls = 0
  let timer: NodeJS.Timeout | undefined
  let closing = false

  async function send(): Promise<void> {
    // These clients have stalled: they have not read the events of earlier polls.
    for (const stream of streams.keys())
      if (stream.writableLength > MAX_UNREAD_BYTES) {
        streams.delete(stream)
        stream.destroy()
      }
    for (const { name, every_polls, find } of TOPICS) {
      if (polls % every_polls !== 0) continue
      const data = JSON.stringify(await find(operatorSql))
      if (last_sent.get(name) === data) continue
      last_sent.set(name, data)
      for (const stream of streams.keys()) stream.write(messageOf(name, data))
    }
    polls += 1
  }
  function schedule(): void {
    timer ??= setTimeout(() => {
      void send()
        .catch((err: unknown) => log.debug({ err }, 'the events of the operations stream could not be read'))
        .finally(() => {
          timer = undefined
          if (streams.size > 0 && !closing) schedule()
          else last_sent.clear()
        })
    }, POLL_INTERVAL_MS)
  }
  /** Removes the stream first, because nothing may be written after its end. */
  function end(stream: ServerResponse): void {
    streams.delete(stream)
    stream.end()
  }
  return {
    assertCapacity(user_id) {
      if (streams.size >= MAX_STREAMS)
        throw new AppError('overloaded', {
          message: 'Too many streams of operators are open: try again later.',
        })
      if ([...streams.values()].filter((id) => id === user_id).length >= MAX_STREAMS_PER_USER)
        throw new AppError('rate_limited', {
          retry_after_s: CHECK_INTERVAL_MS / 1000,
          message: `You already have ${MAX_STREAMS_PER_USER} open streams.`,
        })
    },
    open(stream, user_id) {
      stream.write(
        `retry: 2000\n\n${Array.from(last_sent, ([name, data]) => messageOf(name, data)).join('')}`,
      )
      stream.on('error', (err) => log.debug({ err }, 'an operations stream was disconnected'))
      stream.on('close', () => streams.delete(stream))
      streams.set(stream, user_id)
      schedule()
    },
    has: (stream) => streams.has(stream),
    end,
    close() {
      closing = true
      clearTimeout(timer)
      for (const stream of streams.keys()) end(stream)
    },
  }
}

export function streamRoutes(app: FastifyInstance, context: DashboardContext): void {
  const { requireSession } = context
  const broadcast = createBroadcast(context)

  app.get('/api/ops/stream', async (request, reply) => {
    const { user_id } = requireOperator(request)
    broadcast.assertCapacity(user_id)
    reply.hijack()
    const stream = reply.raw
    stream.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    if (isHeadRequest(request)) {
      stream.end()
      return
    }
    const check = setInterval(() => {
      // The stream has ended, but the client has not closed the connection.
      if (!broadcast.has(stream)) {
        stream.destroy()
        return
      }
      void requireSession(request).then(
        ({ is_operator }) =>
          void (is_operator
            ? broadcast.has(stream) && stream.write(': keep-alive\n\n')
            : broadcast.end(stream)),
        () => broadcast.end(stream),
      )
    }, CHECK_INTERVAL_MS)
    stream.on('close', () => clearInterval(check))
    broadcast.open(stream, user_id)
  })
  app.addHook('preClose', (done) => {
    broadcast.close()
    done()
  })
}

function messageOf(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`
}
