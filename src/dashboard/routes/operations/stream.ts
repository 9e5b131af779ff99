// Server-sent events for operators: pauses, figures of queues and acts under way, whenever they change.
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
/** Proxies close what is silent, and whoever is no operator any more is cut off. */
const CHECK_MS = 5_000
const MOST_STREAMS = 200
const MOST_OF_USER = 5
/** A reader that is so far behind has stalled: it begins anew. */
const MOST_UNREAD_BYTES = 1024 * 1024

/** What is sent, each under its name. */
const TOPICS: { name: string; every: number; find: (sql: Sql) => Promise<unknown> }[] = [
  { name: 'pauses', every: 1, find: findPauses },
  { name: 'acts', every: 1, find: async (sql) => listActs(sql, { limit: 20 }) },
  { name: 'queues', every: FIGURES_EVERY, find: findQueueFigures },
]

/** The database is asked once for all who listen, and not while nobody does. */
export function streamRoutes(app: FastifyInstance, { operators, signedIn, log }: DashboardContext): void {
  /** With whose they are. */
  const streams = new Map<ServerResponse, string>()
  const last = new Map<string, string>()
  let looks = 0
  let timer: NodeJS.Timeout | undefined
  let closing = false

  async function look(): Promise<void> {
    // What it was sent a second ago and more is still here.
    for (const stream of streams.keys())
      if (stream.writableLength > MOST_UNREAD_BYTES) {
        streams.delete(stream)
        stream.destroy()
      }
    for (const { name, every, find } of TOPICS) {
      if (looks % every !== 0) continue
      const data = JSON.stringify(await find(operators))
      if (last.get(name) === data) continue
      last.set(name, data)
      for (const stream of streams.keys()) stream.write(messageOf(name, data))
    }
    looks += 1
  }
  /** Nothing is written after its end. */
  function end(stream: ServerResponse): void {
    streams.delete(stream)
    stream.end()
  }
  function begin(): void {
    timer ??= setTimeout(() => {
      void look()
        .catch((err: unknown) => log.debug({ err }, 'the stream of operations found nothing to tell'))
        .finally(() => {
          timer = undefined
          if (streams.size > 0 && !closing) begin()
          else last.clear()
        })
    }, LOOK_MS)
  }

  app.get('/api/ops/stream', async (request, reply) => {
    const { user_id } = asOperator(request)
    if (streams.size >= MOST_STREAMS)
      throw new AppError('overloaded', { message: 'Too many streams of operators are open.' })
    if ([...streams.values()].filter((id) => id === user_id).length >= MOST_OF_USER)
      throw new AppError('rate_limited', {
        retry_after_s: CHECK_MS / 1000,
        message: `You already have ${MOST_OF_USER} open streams.`,
      })
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
    stream.write(`retry: 2000\n\n${Array.from(last, ([name, data]) => messageOf(name, data)).join('')}`)
    const check = setInterval(() => {
      // Its end was never read.
      if (!streams.has(stream)) {
        stream.destroy()
        return
      }
      void signedIn(request).then(
        ({ is_operator }) =>
          void (is_operator ? streams.has(stream) && stream.write(': still here\n\n') : end(stream)),
        () => end(stream),
      )
    }, CHECK_MS)
    stream.on('error', (err) => log.debug({ err }, 'a stream of operations broke off'))
    stream.on('close', () => {
      clearInterval(check)
      streams.delete(stream)
    })
    streams.set(stream, user_id)
    begin()
  })
  app.addHook('preClose', (done) => {
    closing = true
    clearTimeout(timer)
    for (const stream of streams.keys()) end(stream)
    done()
  })
}

function messageOf(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`
}
