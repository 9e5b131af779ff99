// Answers a batch of messages. Each message is accepted or refused on its own.
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { idsOfRequest } from '#core/ids.ts'
import { messageSchema } from '#domain/messages/message.ts'
import { acceptBatchItem } from '../../accept.ts'
import type { RouteContext } from '../../context.ts'
import { errorBody } from '../../openapi/error.ts'
import { parseBatchItem } from '../../validate.ts'
import type { RequesterOf, ReserveBytes } from './requester.ts'
import type { MessageWork } from './sending.ts'

/** Limits how many messages are read at once for the replays of a tenant: a small request can replay large messages. */
const REPLAY_LIMITS = {
  running: 8,
  queue: {
    waiting: 2_000,
    wait_ms: 10_000,
    refuse: () =>
      new AppError('rate_limited', {
        limited_by: 'message_memory',
        retry_after_s: 1,
        message:
          'Too many messages of replayed batches are being loaded: send smaller batches, or retry later.',
      }),
  },
}

export const batchAnswer = z
  .object({
    status: z.int().meta({
      description:
        'The status that a request for this message alone would get: 202 if it is queued, 201 if it is scheduled or suppressed, otherwise the status of its error.',
      example: 202,
    }),
    message: messageSchema
      .optional()
      .meta({ description: 'The message, if it was accepted by this request or an earlier one.' }),
    error: errorBody.optional().meta({ description: 'The error, if the message was refused.' }),
  })
  .meta({ id: 'MessageAnswer', description: 'The result for one message of the batch.' })

type BatchItem = z.output<typeof batchAnswer>

type Texts = { [Part in 'text' | 'html' | 'body']?: string | null | undefined }
export type KeyedBody = Texts & { idempotency_key?: string | undefined }

type BatchRequest = FastifyRequest<{ Body: { messages: Json[] } }>

/** A channel of messages. `path`: the path of the route that sends a single message. */
type BatchChannel<Body> = { path: string; schema: z.ZodType<Body>; messageWork: MessageWork<Body> }

/** Answers the messages of a request, in order. */
type AnswerBatch = <Body extends KeyedBody>(
  request: BatchRequest,
  channel: BatchChannel<Body>,
) => Promise<BatchItem[]>

export function createAnswerBatch(context: RouteContext, requesterOf: RequesterOf): AnswerBatch {
  const read = createGates(REPLAY_LIMITS)

  function parseItem<Body>(
    request: BatchRequest,
    schema: z.ZodType<Body>,
    message: Json,
  ): { body: Body } | BatchItem {
    try {
      return { body: parseBatchItem(schema, message) }
    } catch (error) {
      return context.itemError(error, request)
    }
  }

  return async (request, { path, schema, messageWork }) => {
    const items = request.body.messages.map((message) => parseItem(request, schema, message))
    const requester = requesterOf(request)
    const { tenant_id } = requester
    const answerItem = async (body: z.output<typeof schema>, reserve: ReserveBytes): Promise<BatchItem> => {
      const key = body.idempotency_key ?? null
      const route = `POST ${path}`
      const ids = idsOfRequest({ tenant_id, path: route, key })
      const request_key = { tenant_id, key, route, request_id: request.id, ids }
      // The memory for these texts is already reserved, because the body of the request contains them.
      let reserved = bytesOf(body)
      const reserveMore = (bytes: number): void => {
        reserve(bytes)
        reserved += bytes
      }
      const { reader, ...work } = messageWork(body, { ...requester, withMemory: (step) => step(reserveMore) })
      const find: typeof reader.find = (requested) =>
        read(tenant_id, async () => {
          const found = await reader.find(requested)
          reserveMore(Math.max(0, bytesOf(found.resource) - reserved))
          return found
        })
      try {
        const { status, resource } = await acceptBatchItem(context, request_key, {
          ...work,
          reader: { ...reader, find },
        })
        return { status, message: resource }
      } catch (error) {
        return context.itemError(error, request)
      }
    }
    // The answer includes all texts, also those rendered from templates: their memory is reserved until the answer is
    // complete.
    return await requester.withMemory(
      async (reserve) =>
        await Promise.all(
          items.map(async (each) => ('body' in each ? await answerItem(each.body, reserve) : each)),
        ),
    )
  }
}

function bytesOf({ text, html, body }: Texts): number {
  return [text, html, body].reduce((sum, part) => sum + Buffer.byteLength(part ?? ''), 0)
}
