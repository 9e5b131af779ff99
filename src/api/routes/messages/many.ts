// Answers each of many messages: each is accepted or refused by itself.
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { messageSchema } from '#domain/messages/message.ts'
import { acceptOneOfMany } from '../../accept.ts'
import type { RouteContext } from '../../context.ts'
import { errorBody } from '../../openapi/error.ts'
import { parsedMessage } from '../../validate.ts'
import type { AskerOf, TakeRoom } from './asker.ts'
import type { Sending } from './sending.ts'

/** So many of a tenant that were accepted before are read again at once: each can be large, and its request short. */
const READ = {
  running: 8,
  queue: {
    waiting: 2_000,
    wait_ms: 10_000,
    refuse: () =>
      new AppError('rate_limited', {
        retry_after_s: 1,
        message:
          'Too many messages that were accepted before are read at once: ask again in smaller batches.',
      }),
  },
}

export const answered = z
  .object({
    status: z.int().meta({
      description:
        'The status that the message would have been answered with on its own: 202 while it is queued, 201 if it is scheduled or suppressed, otherwise that of its error.',
      example: 202,
    }),
    message: messageSchema
      .optional()
      .meta({ description: 'The message, if it was accepted, now or before.' }),
    error: errorBody.optional().meta({ description: 'Why it was refused.' }),
  })
  .meta({ id: 'MessageAnswer', description: 'The result for one message of the batch.' })

type Item = z.output<typeof answered>

type Texts = { [Part in 'text' | 'html' | 'body']?: string | null | undefined }
export type Keyed = Texts & { idempotency_key?: string | undefined }

type ManyRequest = FastifyRequest<{ Body: { messages: Json[] } }>

/** `path`: of the route that sends one such message. */
type BatchChannel<Body> = { path: string; schema: z.ZodType<Body>; sending: Sending<Body> }

/** Answers each message of a request, in their order. */
type AnswerEach = <Body extends Keyed>(request: ManyRequest, channel: BatchChannel<Body>) => Promise<Item[]>

export function createAnswerEach(context: RouteContext, askerOf: AskerOf): AnswerEach {
  const read = createGates(READ)

  function parsed<Body>(request: ManyRequest, schema: z.ZodType<Body>, message: Json): { body: Body } | Item {
    try {
      return { body: parsedMessage(schema, message) }
    } catch (error) {
      return context.shown(error, request)
    }
  }

  return async (request, { path, schema, sending }) => {
    const given = request.body.messages.map((message) => parsed(request, schema, message))
    const asker = askerOf(request)
    const { tenant_id } = asker
    const answerOf = async (body: z.output<typeof schema>, take: TakeRoom): Promise<Item> => {
      const key = body.idempotency_key ?? null
      const asked = { tenant_id, key, route: `POST ${path}`, request_id: request.id }
      // What was given is held as part of the request.
      let taken = bytesOf(body)
      const takeMore = (bytes: number): void => {
        take(bytes)
        taken += bytes
      }
      const { answers, ...work } = sending(body, { ...asker, hold: (step) => step(takeMore) })
      const find: typeof answers.find = (wanted) =>
        read(tenant_id, async () => {
          const found = await answers.find(wanted)
          takeMore(Math.max(0, bytesOf(found.resource) - taken))
          return found
        })
      try {
        const { status, resource } = await acceptOneOfMany(context, asked, {
          ...work,
          answers: { ...answers, find },
        })
        return { status, message: resource }
      } catch (error) {
        return context.shown(error, request)
      }
    }
    // The answer shows every text, also one that was rendered: what they take is held until it is whole.
    return await asker.hold(
      async (take) =>
        await Promise.all(
          given.map(async (each) => ('body' in each ? await answerOf(each.body, take) : each)),
        ),
    )
  }
}

function bytesOf({ text, html, body }: Texts): number {
  return [text, html, body].reduce((sum, part) => sum + Buffer.byteLength(part ?? ''), 0)
}
