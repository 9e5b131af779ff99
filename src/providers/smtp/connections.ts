// Connections to an SMTP server, each of which sends one email after another.
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import type { Envelope } from './envelope.ts'

/** How a conversation ended: with what the server said at last, or why nothing more came. */
export type ConversationEnd =
  | { kind: 'accepted'; refused: SmtpError[] }
  | {
      kind: 'failed'
      /** Null: we ended it. */
      error: SmtpError | null
      /** Whether the server had asked for the text: before it cannot have accepted anything. */
      text_asked: boolean
      /** Whether the final dot may have been sent: before it the server has not the whole text. */
      dot_sent: boolean
    }

/** An error of nodemailer; `response`: the reply that it is about. */
export type SmtpError = Error & {
  code?: string | undefined
  originalCode?: string | undefined
  command?: string | undefined
  response?: string | undefined
  responseCode?: number | undefined
  recipient?: string | undefined
  rejectedErrors?: SmtpError[] | undefined
}

type TakenConnection = {
  /** Whether it has been idle: then the server may have ended it. */
  was_kept: boolean
  send(envelope: Envelope, message: Buffer, cut: AbortSignal): Promise<ConversationEnd>
  /** For the next, where nothing was sent. */
  keep(): void
}

export type Connections = {
  /** One that is idle, or a new one. `cut` ends the attempt to connect. */
  take(cut: AbortSignal, fresh: boolean): Promise<TakenConnection | { error: SmtpError }>
  /** Ends those that are idle. */
  close(): void
}

/** One that is kept. `unclean`: the server may still have an envelope that it refused. */
type Kept = { connection: SMTPConnection; sent: number; unclean: boolean; idle: NodeJS.Timeout | null }

const CONNECT_MS = 10_000
const GREETING_MS = 10_000
const SILENCE_MS = 60_000
/** Less than any server waits. */
const IDLE_MS = 30_000
/** Some servers end a connection after so many. */
const MOST_EMAILS = 1_000
const CHUNK_BYTES = 64 * 1024

export function openConnections(url: string, { require_tls }: { require_tls: boolean }): Connections {
  const { options, auth } = settingsOf(new URL(url), require_tls)
  const idle: Kept[] = []
  let closed = false

  function keep(kept: Kept): void {
    const { connection } = kept
    if (connection.destroyed) return
    if (closed || kept.sent >= MOST_EMAILS) return leave(connection)
    kept.idle = setTimeout(() => {
      drop(kept)
      leave(connection)
    }, IDLE_MS).unref()
    idle.push(kept)
  }

  function drop(kept: Kept): void {
    clearTimeout(kept.idle ?? undefined)
    const at = idle.indexOf(kept)
    if (at >= 0) idle.splice(at, 1)
  }

  async function open(cut: AbortSignal): Promise<Kept> {
    const kept: Kept = { connection: await connect(options, auth, cut), sent: 0, unclean: false, idle: null }
    kept.connection.once('end', () => drop(kept))
    return kept
  }

  return {
    async take(cut, fresh) {
      const found = fresh ? undefined : idle.pop()
      if (found !== undefined) clearTimeout(found.idle ?? undefined)
      try {
        const kept = found ?? (await open(cut))
        return {
          was_kept: found !== undefined,
          keep: () => keep(kept),
          async send(envelope, message, cut_now) {
            const end = await converse(kept, envelope, message, cut_now)
            keep(kept)
            return end
          },
        }
      } catch (error) {
        return { error: error instanceof Error ? error : new Error(String(error)) }
      }
    },
    close() {
      closed = true
      for (const kept of idle.splice(0)) {
        drop(kept)
        leave(kept.connection)
      }
    },
  }
}

/** The options of nodemailer, and who logs in. */
function settingsOf(url: URL, require_tls: boolean) {
  const { protocol, hostname, port, username, password } = url
  const host = hostname.replaceAll(/^\[|\]$/g, '')
  const secure = protocol === 'smtps:'
  // Nobody is in between there, and the certificate of a server that is there is seldom one that could be verified.
  const is_here = host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
  const options = {
    host,
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    ignoreTLS: is_here,
    requireTLS: require_tls && !is_here,
    connectionTimeout: CONNECT_MS,
    dnsTimeout: CONNECT_MS,
    greetingTimeout: GREETING_MS,
    socketTimeout: SILENCE_MS,
  }
  const auth =
    username === '' ? null : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  return { options, auth }
}

/** Connects and logs in. Rejects with nodemailer's error. */
function connect(
  options: ConstructorParameters<typeof SMTPConnection>[0],
  auth: { user: string; pass: string } | null,
  cut: AbortSignal,
): Promise<SMTPConnection> {
  return new Promise((resolve, reject) => {
    const connection = new SMTPConnection(options)
    const fail = (error: Error) => {
      cut.removeEventListener('abort', giveUp)
      reject(error)
      connection.close()
    }
    const giveUp = () => fail(new Error('given up'))
    const done = () => {
      cut.removeEventListener('abort', giveUp)
      resolve(connection)
    }
    cut.addEventListener('abort', giveUp)
    // Later errors are those of a conversation, which hears of them itself, or of an idle connection, which ends.
    connection.on('error', fail)
    connection.once('end', () => fail(new Error('the server ended the connection')))
    connection.connect((error) => {
      if (error) fail(error)
      else if (auth === null || !connection.allowsAuth) done()
      else connection.login({ ...auth }, (refused) => (refused ? fail(refused) : done()))
    })
  })
}

/** Sends one email. The connection is closed unless it can certainly be used again. */
async function converse(
  kept: Kept,
  { from, to, size, use8BitMime }: Envelope,
  message: Buffer,
  cut: AbortSignal,
): Promise<ConversationEnd> {
  const { connection } = kept
  const text = { asked: false, ended: false }
  const body = bodyOf(message, text)
  const cleaned = kept.unclean
    ? await untilCut(connection, cut, (end) =>
        connection.reset((error) => end({ error: error ?? null, refused: [], is_cut: false })),
      )
    : CLEAN
  const { error, refused, is_cut } =
    cleaned.error !== null || cleaned.is_cut
      ? cleaned
      : await untilCut(connection, cut, (end) =>
          connection.send({ from, to, size, use8BitMime }, body, (failed, info) =>
            end({ error: failed ?? null, refused: info?.rejectedErrors ?? [], is_cut: false }),
          ),
        )
  kept.sent += 1
  kept.unclean = error !== null
  if (error === null && !is_cut) {
    // A reply that came before the text had ended leaves unknown what the server reads the rest as.
    if (!body.readableEnded) connection.close()
    return { kind: 'accepted', refused }
  }
  // So does the refusal of a text.
  const is_usable = error?.responseCode !== undefined && error.responseCode !== 421 && !text.asked
  if (!is_usable) connection.close()
  return { kind: 'failed', error, text_asked: text.asked, dot_sent: text.ended }
}

type Talk = { error: SmtpError | null; refused: SmtpError[]; is_cut: boolean }
const CLEAN: Talk = { error: null, refused: [], is_cut: false }

/** What `ask` ends with; when the signal aborts first, the connection is closed and nothing more is waited for. */
function untilCut(
  connection: SMTPConnection,
  cut: AbortSignal,
  ask: (end: (talk: Talk) => void) => void,
): Promise<Talk> {
  return new Promise((resolve) => {
    const end = (talk: Talk) => {
      cut.removeEventListener('abort', giveUp)
      resolve(talk)
    }
    const giveUp = () => {
      connection.close()
      end({ error: null, refused: [], is_cut: true })
    }
    cut.addEventListener('abort', giveUp)
    ask(end)
  })
}

/**
 * The text in pieces. Nodemailer begins to read it when the server has asked for it (354), and writes the final dot
 * when it has ended.
 */
function bodyOf(message: Buffer, text: { asked: boolean; ended: boolean }): Readable {
  let at = 0
  return new Readable({
    highWaterMark: CHUNK_BYTES,
    read() {
      text.asked = true
      text.ended = at >= message.length
      this.push(text.ended ? null : message.subarray(at, (at += CHUNK_BYTES)))
    },
  })
}

/** Says goodbye and waits for no answer. */
function leave(connection: SMTPConnection): void {
  if (connection.destroyed) return
  connection.quit()
  connection.close()
}
