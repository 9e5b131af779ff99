// Email over SMTP: one conversation for each email, over connections that are kept, with what is known of its end.
import { createFairGate } from '#core/gate.ts'
import type { EmailProvider, OutgoingEmail, RefusedRecipient, SendOutcome } from '../email.ts'
import type { EndedCall } from '../http.ts'
import { currentPermit, NotStarted, type Permit } from '../permit.ts'
import { loginIn, lostUnsent, outcomeOf, unconnected } from './classify.ts'
import { createComposer, type Dkim } from './compose.ts'
import { openConnections, type Connections } from './connections.ts'
import { envelopeOf, type Envelope } from './envelope.ts'

export type SmtpOptions = {
  /** `smtp://user:password@host:port`, or `smtps://`. */
  url: string
  connections: number
  /** Null: nothing is signed. */
  dkim: Dkim | null
  /** Whether a server elsewhere that does not encrypt gets nothing; true unless told. */
  require_tls?: boolean
  onCall?: (call: EndedCall) => void
}

type EmailOutcome = SendOutcome<{ refused: RefusedRecipient[] }>
type Conversation = {
  envelope: Envelope
  message: Buffer
  login: ReturnType<typeof loginIn>
  permit: Permit
  cut: AbortSignal
}

/** Emails that wait for a connection are given back when too many do, or for too long. */
const QUEUE = {
  waiting: 5_000,
  wait_ms: 60_000,
  refuse: () => new NotStarted('too many emails wait for a connection to the server'),
}

/** Longer than any conversation of which a permit says no deadline. */
const DEADLINE_MS = 10 * 60_000

/** A pool of connections to one server. */
export function openSmtp(options: SmtpOptions): EmailProvider {
  const { url, connections: running, dkim, require_tls = true, onCall } = options
  const connections = openConnections(url, { require_tls })
  const login = loginIn(url)
  const compose = createComposer(dkim)
  const gate = createFairGate({ running, queue: QUEUE })

  async function send(email: OutgoingEmail, signal: AbortSignal): Promise<EmailOutcome> {
    const permit = currentPermit()
    const message = await compose(email)
    const envelope = envelopeOf(email, message)
    const given_up = AbortSignal.any([signal, permit.signal])
    const { cut, over } = limited(given_up, permit.deadline_ms ?? DEADLINE_MS)
    try {
      return await deliver(connections, { envelope, message, login, permit, cut })
    } finally {
      over()
    }
  }

  return {
    async inTurn(whose, signal, work) {
      try {
        return await gate(whose, signal, work)
      } catch (error) {
        // Given up while it waited.
        if (signal.aborted && error === signal.reason) throw new NotStarted()
        throw error
      }
    },
    async sendEmail(email, signal) {
      const started = performance.now()
      const outcome = await send(email, signal)
      onCall?.({
        operation: 'send_email',
        outcome: outcome.kind,
        duration_ms: performance.now() - started,
        ...('said' in outcome && { said: outcome.said }),
        // It answered: what it refuses for now is this email.
        ...(outcome.kind === 'retry' &&
          outcome.failure.code !== 'connection_failed' && { health: 'answers' as const }),
        ...(signal.aborted && { health: 'unknown' as const }),
      })
      return outcome
    },
    close: async () => connections.close(),
  }
}

/** A signal that aborts with the given one and after `deadline_ms`, until it is over. */
function limited(given: AbortSignal, deadline_ms: number): { cut: AbortSignal; over: () => void } {
  const controller = new AbortController()
  const end = () => controller.abort(given.reason)
  const timer = setTimeout(() => controller.abort(), deadline_ms)
  given.addEventListener('abort', end)
  if (given.aborted) end()
  return {
    cut: controller.signal,
    over() {
      clearTimeout(timer)
      given.removeEventListener('abort', end)
    },
  }
}

/**
 * A kept connection may have been ended by the server while it was idle. Where it was lost before the server had the
 * text, nothing was sent, and the email goes over a new one.
 */
async function deliver(connections: Connections, conversation: Conversation): Promise<EmailOutcome> {
  const { envelope, message, login, permit, cut } = conversation
  for (let fresh = false; ; fresh = true) {
    if (cut.aborted) throw new NotStarted()
    const taken = await connections.take(cut, fresh)
    if ('error' in taken) {
      if (cut.aborted) throw new NotStarted()
      return unconnected(taken.error, login)
    }
    if (!(await isPermitted(permit)) || cut.aborted) {
      taken.keep()
      throw new NotStarted()
    }
    permit.used()
    const end = await taken.send(envelope, message, cut)
    if (!taken.was_kept || !lostUnsent(end) || cut.aborted) return outcomeOf(end, { ...envelope, login })
  }
}

async function isPermitted(permit: Permit): Promise<boolean> {
  while (!permit.valid()) if (!(await permit.renew())) return false
  return true
}
