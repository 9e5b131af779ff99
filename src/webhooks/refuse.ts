// How the notifications of a provider are refused: counted each time, and told at most once a second.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { metrics } from '#core/metrics.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { SignatureVerdict } from '#providers/signatures.ts'

export type NotificationRefusals = {
  /** Whoever sent it cannot show to be the provider. `verdict`: why, or that there is no secret to tell by. */
  signature(
    verdict: SignatureVerdict | 'not configured',
    request: FastifyRequest,
    reply: FastifyReply,
  ): FastifyReply
  /** It is the provider's, and not what it sends. `why`: what is wrong, for a sender that is somebody's own program. */
  content(request: FastifyRequest, reply: FastifyReply, problem?: string): FastifyReply
}

/** The refusals of one provider. */
export function createNotificationRefusals(provider: string, log: Log): NotificationRefusals {
  const warn = throttle((suppressed, reason: string, ip: string) =>
    log.warn({ provider, verdict: reason, ip, suppressed }, 'a notification was refused'),
  )
  const refuse = (
    reason: string,
    error: { code: string; message: string },
    { ip }: FastifyRequest,
    reply: FastifyReply,
  ) => {
    metrics.notificationsRefused.inc({ provider, reason })
    warn(reason, ip)
    return reply.code(400).send({ error })
  }
  return {
    signature: (verdict, ...exchange) =>
      refuse(
        verdict,
        { code: 'invalid_signature', message: `The signature is not acceptable: ${verdict}.` },
        ...exchange,
      ),
    content: (request, reply, problem) => {
      const message = problem === undefined ? 'This is not an event.' : `This is not an event: ${problem}.`
      return refuse('no event', { code: 'invalid_request', message }, request, reply)
    },
  }
}

/** Unix time, by which the age of a signature is told. */
export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** The bytes of a body as they came; none for a request without. */
export function rawBody({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

/** What the bytes say as JSON; undefined when they are none. */
export function parseJson(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return undefined
  }
}

/** The first value of a header. */
export function headerOf({ headers }: FastifyRequest, name: string): string | undefined {
  const header = headers[name]
  return Array.isArray(header) ? header[0] : header
}
