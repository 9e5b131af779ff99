// Pooled connections to an SMTP server. Each sends one email at a time.
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import type { Envelope } from './envelope.ts'

/** The end of a conversation: the last reply, or the error. */
export type ConversationEnd =
  | { kind: 'accepted'; refused: SmtpError[] }
  | {
      kind: 'failed'
      /** The error; null: the signal aborted. */
      error: SmtpError | null
      /** Whether the server requested the text (reply 354). Otherwise the server cannot have accepted the email. */
      data_requested: boolean
      /** Whether the final dot may have been sent. Otherwise the server does not have the complete text. */
      dot_sent: boolean
    }

/** An error of nodemailer. `response`: the reply of the server. */
export type SmtpError = Error & {
  code?: string | undefined
  originalCode?: string | undefined
  command?: string | undefined
  response?: string | undefined
  responseCode?: number | undefined
  recipient?: string | undefined
  rejectedErrors?: SmtpError[] | undefined
}

type AcquiredConnection = {
  /** Whether the connection was idle before: the server may have closed it. */
  was_idle: boolean
  send(envelope: Envelope, message: Buffer, abort: AbortSignal): Promise<ConversationEnd>
  /** Returns the connection to the pool without sending. */
  release(): void
}

export type Connections = {
  /** Returns an idle connection or a new one; always a new one if `fresh`. `abort` cancels the attempt to connect. */
  acquire(abort: AbortSignal, fresh: boolean): Promise<AcquiredConnection | { error: SmtpError }>
  /** Closes idle connections. */
  close(): void
}

/**
 * A connection of the pool. `unclean`: the server may still have the envelope of a failed email, so the next email
 * begins with RSET.
 */
type PooledConnection = {
  connection: SMTPConnection
  sent: number
  unclean: boolean
  idle: NodeJS.Timeout | null
}

const CONNECT_TIMEOUT_MS = 10_000
const GREETING_TIMEOUT_MS = 10_000
const SOCKET_TIMEOUT_MS = 60_000
/** Shorter than the idle timeout of servers. */
const IDLE_TIMEOUT_MS = 30_000
/** Some servers close a connection after a number of emails. */
const MAX_EMAILS_PER_CONNECTION = 1_000
const CHUNK_BYTES = 64 * 1024

/**
 * A pool of connections to the server of an `smtp://` or `smtps://` URL. `require_tls`: whether remote servers without
 * TLS are refused.
 */
export function openConnections(url: string, { require_tls }: { require_tls: boolean }): Connections {
  const { options, auth } = settingsOf(new URL(url), require_tls)
  const idle: PooledConnection[] = []
  let closed = false

  function release(pooled: PooledConnection): void {
    const { connection } = pooled
    if (connection.destroyed) return
    if (closed || pooled.sent >= MAX_EMAILS_PER_CONNECTION) return quit(connection)
    pooled.idle = setTimeout(() => {
      removeIdle(pooled)
      quit(connection)
    }, IDLE_TIMEOUT_MS).unref()
    idle.push(pooled)
  }

  function removeIdle(pooled: PooledConnection): void {
    clearTimeout(pooled.idle ?? undefined)
    const at = idle.indexOf(pooled)
    if (at >= 0) idle.splice(at, 1)
  }

  async function open(abort: AbortSignal): Promise<PooledConnection> {
    const pooled: PooledConnection = {
      connection: await connect(options, auth, abort),
      sent: 0,
      unclean: false,
      idle: null,
    }
    pooled.connection.once('end', () => removeIdle(pooled))
    return pooled
  }

  return {
    async acquire(abort, fresh) {
      const found = fresh ? undefined : idle.pop()
      if (found !== undefined) clearTimeout(found.idle ?? undefined)
      try {
        const pooled = found ?? (await open(abort))
        return {
          was_idle: found !== undefined,
          release: () => release(pooled),
          async send(envelope, message, signal) {
            const end = await sendOnConnection(pooled, envelope, message, signal)
            release(pooled)
            return end
          },
        }
      } catch (error) {
        return { error: error instanceof Error ? error : new Error(String(error)) }
      }
    },
    close() {
      closed = true
      for (const pooled of idle.splice(0)) {
        removeIdle(pooled)
        quit(pooled.connection)
      }
    },
  }
}

/** The options of nodemailer, and the login. */
function settingsOf(url: URL, require_tls: boolean) {
  const { protocol, hostname, port, username, password } = url
  const host = hostname.replaceAll(/^\[|\]$/g, '')
  const secure = protocol === 'smtps:'
  // A local server needs no encryption, and its certificate can seldom be verified.
  const is_local = host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
  const options = {
    host,
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    ignoreTLS: is_local,
    requireTLS: require_tls && !is_local,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    dnsTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: GREETING_TIMEOUT_MS,
    socketTimeout: SOCKET_TIMEOUT_MS,
  }
  const auth =
    username === '' ? null : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  return { options, auth }
}

/** Connects and logs in. Rejects with nodemailer's error. */
function connect(
  options: ConstructorParameters<typeof SMTPConnection>[0],
  auth: { user: string; pass: string } | null,
  abort: AbortSignal,
): Promise<SMTPConnection> {
  return new Promise((resolve, reject) => {
    const connection = new SMTPConnection(options)
    const fail = (error: Error) => {
      abort.removeEventListener('abort', onAbort)
      reject(error)
      connection.close()
    }
    const onAbort = () => fail(new Error('the connection attempt was aborted'))
    const done = () => {
      abort.removeEventListener('abort', onAbort)
      resolve(connection)
    }
    abort.addEventListener('abort', onAbort)
    // Later errors are handled by the conversation, or close an idle connection.
    connection.on('error', fail)
    connection.once('end', () => fail(new Error('the server closed the connection')))
    connection.connect((error) => {
      if (error) fail(error)
      else if (auth === null || !connection.allowsAuth) done()
      else connection.login({ ...auth }, (refused) => (refused ? fail(refused) : done()))
    })
  })
}

/** Sends one email. Closes the connection unless another email can certainly be sent over it. */
async function sendOnConnection(
  pooled: PooledConnection,
  { from, to, size, use8BitMime }: Envelope,
  message: Buffer,
  abort: AbortSignal,
): Promise<ConversationEnd> {
  const { connection } = pooled
  const text = { requested: false, ended: false }
  const body = bodyOf(message, text)
  const cleaned = pooled.unclean
    ? await untilAborted(connection, abort, (end) =>
        connection.reset((error) => end({ error: error ?? null, refused: [], was_aborted: false })),
      )
    : NO_EXCHANGE
  const { error, refused, was_aborted } =
    cleaned.error !== null || cleaned.was_aborted
      ? cleaned
      : await untilAborted(connection, abort, (end) =>
          connection.send({ from, to, size, use8BitMime }, body, (failed, info) =>
            end({ error: failed ?? null, refused: info?.rejectedErrors ?? [], was_aborted: false }),
          ),
        )
  pooled.sent += 1
  pooled.unclean = error !== null
  if (error === null && !was_aborted) {
    // The server replied before it had the whole text: its state is unknown.
    if (!body.readableEnded) connection.close()
    return { kind: 'accepted', refused }
  }
  // After a refused text, too, the state of the server is unknown.
  const is_usable = error?.responseCode !== undefined && error.responseCode !== 421 && !text.requested
  if (!is_usable) connection.close()
  return { kind: 'failed', error, data_requested: text.requested, dot_sent: text.ended }
}

type Exchange = { error: SmtpError | null; refused: SmtpError[]; was_aborted: boolean }
const NO_EXCHANGE: Exchange = { error: null, refused: [], was_aborted: false }

/** Runs `send` and returns its result. If the signal aborts first, closes the connection. */
function untilAborted(
  connection: SMTPConnection,
  abort: AbortSignal,
  send: (end: (result: Exchange) => void) => void,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const end = (result: Exchange) => {
      abort.removeEventListener('abort', onAbort)
      resolve(result)
    }
    const onAbort = () => {
      connection.close()
      end({ error: null, refused: [], was_aborted: true })
    }
    abort.addEventListener('abort', onAbort)
    send(end)
  })
}

/**
 * The text as a stream. Nodemailer starts to read the stream after the server's reply 354, and writes the final dot at
 * its end.
 */
function bodyOf(message: Buffer, text: { requested: boolean; ended: boolean }): Readable {
  let at = 0
  return new Readable({
    highWaterMark: CHUNK_BYTES,
    read() {
      text.requested = true
      text.ended = at >= message.length
      this.push(text.ended ? null : message.subarray(at, (at += CHUNK_BYTES)))
    },
  })
}

/** Sends QUIT and closes without awaiting the reply. */
function quit(connection: SMTPConnection): void {
  if (connection.destroyed) return
  connection.quit()
  connection.close()
}
