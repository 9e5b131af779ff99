// Refuses notifications. Each refusal is counted, and at most one a second is logged.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { metrics } from '#core/metrics.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { SignatureVerdict } from '#providers/signatures.ts'

/** The reasons of refusals, as labels of their metric. */
const REASONS = ['malformed', 'stale', 'mismatch', 'not configured', 'no event', 'other mode'] as const
type Reason = (typeof REASONS)[number]

export type NotificationRefusals = {
  /**
   * Refuses a request whose sender is not verified. `verdict`: the problem of the signature, or that no secret is
   * configured.
   */
  signature(
    verdict: Exclude<SignatureVerdict, 'valid'> | 'not configured',
    request: FastifyRequest,
    reply: FastifyReply,
  ): FastifyReply
  /**
   * Refuses content of a verified sender that is not an event. `problem`: the reason, for integrators who write the
   * sender themselves.
   */
  content(request: FastifyRequest, reply: FastifyReply, problem?: string): FastifyReply
  /** Refuses an event that is not of the mode of the secret with which it is signed. */
  mode(request: FastifyRequest, reply: FastifyReply): FastifyReply
}

/** Refuses the notifications of one provider, and counts them. `livemode` false: those of test mode, not counted. */
export function createNotificationRefusals(
  provider: string,
  log: Log,
  { livemode = true }: { livemode?: boolean } = {},
): NotificationRefusals {
  // From 0, so that Prometheus sees also the first refusal as an increase.
  if (livemode) for (const reason of REASONS) metrics.notificationsRefused.inc({ provider, reason }, 0)
  const warn = throttle((suppressed, reason: string, ip: string) =>
    log.warn({ provider, livemode, verdict: reason, ip, suppressed }, 'a notification was refused'),
  )
  const refuse = (
    reason: Reason,
    error: { code: string; message: string },
    { ip }: FastifyRequest,
    reply: FastifyReply,
  ) => {
    if (livemode) metrics.notificationsRefused.inc({ provider, reason })
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
      const message =
        problem === undefined ? 'The body is not an event.' : `The body is not an event: ${problem}.`
      return refuse('no event', { code: 'invalid_request', message }, request, reply)
    },
    mode: (request, reply) => {
      const message = 'The event is of the other mode than the secret with which it is signed.'
      return refuse('other mode', { code: 'invalid_request', message }, request, reply)
    },
  }
}

/** The current Unix time in seconds, for the age of a signature. */
export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** The raw bytes of a body; empty for a request without a body. */
export function rawBody({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

/** The parsed JSON; undefined if the bytes are not JSON. */
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
