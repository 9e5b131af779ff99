// Server-sent events for operators: pauses, figures of queues and acts under way, as they change.
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { wantsHead } from '#core/listener.ts'
import { findPauses } from '#domain/jobs/pauses.ts'
import { listActs } from '#domain/operator-acts/act.ts'
import { findQueueFigures } from '#domain/operations/queues.ts'
import { asOperator, type DashboardContext } from '../../context.ts'

const LOOK_MS = 1_000
/** Figures are counted every ten seconds. */
const FIGURES_EVERY = 5
/** Proxies close silent connections, and a user who is no operator any more is disconnected. */
const CHECK_MS = 5_000
const MOST_STREAMS = 200
const MOST_OF_USER = 5
/** A reader that is so far behind has stalled. It reconnects. */
const MOST_UNREAD_BYTES = 1024 * 1024

/** The events that are sent, by name. */
const TOPICS: { name: string; every: number; find: (sql: Sql) => Promise<unknown> }[] = [
  { name: 'pauses', every: 1, find: findPauses },
  { name: 'acts', every: 1, find: async (sql) => listActs(sql, { limit: 20 }) },
  { name: 'queues', every: FIGURES_EVERY, find: findQueueFigures },
]

/** The open streams of operators. */
type Broadcast = {
  /** Throws `overloaded` or `rate_limited` when the user may not open another stream. */
  assertRoom: (user_id: string) => void
  open: (stream: ServerResponse, user_id: string) => void
  has: (stream: ServerResponse) => boolean
  end: (stream: ServerResponse) => void
  close: () => void
}

/** Queries the database once for all streams, and not at all while none is open. */
function createBroadcast({ operators, log }: Pick<DashboardContext, 'operators' | 'log'>): Broadcast {
  /** The user of each stream. */
  const streams = new Map<ServerResponse, string>()
  const last = new Map<string, string>()
  let rounds = 0
  let timer: NodeJS.Timeout | undefined
  let closing = false

  async function send(): Promise<void> {
    // The reader has stalled: it has not read what was sent over a second ago.
    for (const stream of streams.keys())
      if (stream.writableLength > MOST_UNREAD_BYTES) {
        streams.delete(stream)
        stream.destroy()
      }
    for (const { name, every, find } of TOPICS) {
      if (rounds % every !== 0) continue
      const data = JSON.stringify(await find(operators))
      if (last.get(name) === data) continue
      last.set(name, data)
      for (const stream of streams.keys()) stream.write(messageOf(name, data))
    }
    rounds += 1
  }
  function schedule(): void {
    timer ??= setTimeout(() => {
      void send()
        .catch((err: unknown) => log.debug({ err }, 'the stream of operations found nothing to tell'))
        .finally(() => {
          timer = undefined
          if (streams.size > 0 && !closing) schedule()
          else last.clear()
        })
    }, LOOK_MS)
  }
  /** Removes it too: nothing may be written after its end. */
  function end(stream: ServerResponse): void {
    streams.delete(stream)
    stream.end()
  }
  return {
    assertRoom(user_id) {
      if (streams.size >= MOST_STREAMS)
        throw new AppError('overloaded', { message: 'Too many streams of operators are open.' })
      if ([...streams.values()].filter((id) => id === user_id).length >= MOST_OF_USER)
        throw new AppError('rate_limited', {
          retry_after_s: CHECK_MS / 1000,
          message: `You already have ${MOST_OF_USER} open streams.`,
        })
    },
    open(stream, user_id) {
      stream.write(`retry: 2000\n\n${Array.from(last, ([name, data]) => messageOf(name, data)).join('')}`)
      stream.on('error', (err) => log.debug({ err }, 'a stream of operations broke off'))
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
  const { signedIn } = context
  const broadcast = createBroadcast(context)

  app.get('/api/ops/stream', async (request, reply) => {
    const { user_id } = asOperator(request)
    broadcast.assertRoom(user_id)
    reply.hijack()
    const stream = reply.raw
    stream.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    if (wantsHead(request)) {
      stream.end()
      return
    }
    const check = setInterval(() => {
      // It was ended, and the reader did not read that.
      if (!broadcast.has(stream)) {
        stream.destroy()
        return
      }
      void signedIn(request).then(
        ({ is_operator }) =>
          void (is_operator
            ? broadcast.has(stream) && stream.write(': still here\n\n')
            : broadcast.end(stream)),
        () => broadcast.end(stream),
      )
    }, CHECK_MS)
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
