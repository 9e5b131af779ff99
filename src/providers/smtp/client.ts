// Sends email over SMTP: one conversation per email over pooled connections, with a classified outcome.
import { createFairGate } from '#core/gate.ts'
import type { EmailProvider, OutgoingEmail, RefusedRecipient, SendOutcome } from '../email.ts'
import type { FinishedCall } from '../http.ts'
import { awaitPermit, currentPermit, NotStarted, type Permit } from '../permit.ts'
import { loginPatternOf, isLostBeforeSend, outcomeOf, connectionFailureOf } from './classify.ts'
import { createComposer, type Dkim } from './compose.ts'
import { openConnections, type Connections } from './connections.ts'
import { envelopeOf, type Envelope } from './envelope.ts'

export type SmtpOptions = {
  /** `smtp://user:password@host:port`, or `smtps://`. Read for each email, so that it may be replaced. */
  readonly url: string
  connections: number
  /** Null: emails are not signed. */
  dkim: Dkim | null
  /** Refuse remote servers without TLS. Default: true. */
  require_tls?: boolean
  onCall?: (call: FinishedCall) => void
}

type EmailOutcome = SendOutcome<{ refused: RefusedRecipient[] }>
type Conversation = {
  envelope: Envelope
  message: Buffer
  login: ReturnType<typeof loginPatternOf>
  permit: Permit
  abort: AbortSignal
}

/** Emails that wait for a connection are rejected if too many wait, or if they wait too long. */
const QUEUE = {
  waiting: 5_000,
  wait_ms: 60_000,
  refuse: () => new NotStarted('too many emails wait for a connection to the server'),
}

/** The limit of a conversation whose permit has no deadline. */
const DEADLINE_MS = 10 * 60_000

/** A client with pooled connections to one server. */
export function openSmtp(options: SmtpOptions): EmailProvider {
  const { connections: running, dkim, require_tls = true, onCall } = options
  let server = openServer(options.url)
  const compose = createComposer(dkim)
  const gate = createFairGate({ running, queue: QUEUE })

  function openServer(url: string) {
    return { url, connections: openConnections(url, { require_tls }), login: loginPatternOf(url) }
  }

  /** The server of the present URL. Connections to an earlier one end with their emails. */
  function currentServer(): ReturnType<typeof openServer> {
    if (server.url !== options.url) {
      server.connections.close()
      server = openServer(options.url)
    }
    return server
  }

  async function send(email: OutgoingEmail, signal: AbortSignal): Promise<EmailOutcome> {
    const permit = currentPermit()
    const message = await compose(email)
    const envelope = envelopeOf(email, message)
    const stop_signal = AbortSignal.any([signal, permit.signal])
    const { abort, dispose } = withDeadline(stop_signal, permit.deadline_ms ?? DEADLINE_MS)
    const { connections, login } = currentServer()
    try {
      return await deliver(connections, { envelope, message, login, permit, abort })
    } finally {
      dispose()
    }
  }

  return {
    async withConnection(fairness_key, signal, work) {
      try {
        return await gate(fairness_key, signal, work)
      } catch (error) {
        // The signal aborted while the email waited for a connection.
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
        ...('reported' in outcome && { reported: outcome.reported }),
        // The server works: it only refused this email temporarily.
        ...(outcome.kind === 'retry' &&
          outcome.failure.code !== 'connection_failed' && { health: 'answers' as const }),
        ...(signal.aborted && { health: 'unknown' as const }),
      })
      return outcome
    },
    close: async () => server.connections.close(),
  }
}

/**
 * A signal that aborts with the given signal or after `deadline_ms`. `dispose` stops the timer and removes the listener
 * from the given signal.
 */
function withDeadline(signal: AbortSignal, deadline_ms: number): { abort: AbortSignal; dispose: () => void } {
  const controller = new AbortController()
  const end = () => controller.abort(signal.reason)
  const timer = setTimeout(() => controller.abort(), deadline_ms)
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  return {
    abort: controller.signal,
    dispose() {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
    },
  }
}

/**
 * Sends over an idle connection or a new one. The server may have closed an idle connection: if the connection was lost
 * before the server had the text, nothing was sent, and the email is sent over a new connection.
 */
async function deliver(connections: Connections, conversation: Conversation): Promise<EmailOutcome> {
  const { envelope, message, login, permit, abort } = conversation
  for (let fresh = false; ; fresh = true) {
    if (abort.aborted) throw new NotStarted()
    const acquired = await connections.acquire(abort, fresh)
    if ('error' in acquired) {
      if (abort.aborted) throw new NotStarted()
      return connectionFailureOf(acquired.error, login)
    }
    try {
      await awaitPermit(permit)
      if (abort.aborted) throw new NotStarted()
    } catch (error) {
      acquired.release()
      throw error
    }
    permit.used()
    const end = await acquired.send(envelope, message, abort)
    if (!acquired.was_idle || !isLostBeforeSend(end) || abort.aborted)
      return outcomeOf(end, { ...envelope, login })
  }
}
