// The state of the SMTP emulator: received emails and their record.
import { createHash } from 'node:crypto'
import type { AppendFile } from '../shared/append-file.ts'
import { scriptFault, type Fault, type Faults } from '../shared/faults.ts'
import type { RequestLog } from '../shared/requests.ts'
import { INBOX_ERRORS } from './errors.ts'
import { readEmail, readHeaders, type ReadEmail } from './mime.ts'

/** An accepted email. */
export type InboxMessage = {
  id: string
  /** Sender of the envelope. */
  sender: string
  to: string[]
  raw: Buffer
  received_at: string
}

/** The record of an accepted email, without addresses and texts. */
export type MessageEffect = {
  /** Sequence number, from 1 without gaps. */
  seq: number
  /** Time of the real clock (ISO 8601). */
  at: string
  effect: 'message'
  id: string
  /** The Message-ID, with its angle brackets. */
  message_id: string | null
  /** A hash of each recipient's address and the Message-ID, because the record has no addresses. */
  recipients: string[]
  bytes: number
  /** Headers that begin with `X-Sluice-`: `message_id` for `X-Sluice-Message-Id`. */
  metadata: Record<string, string>
}

export type SmtpEmulator = {
  /** URL of the page and the controls. */
  url: string
  /** URL of the SMTP server, with user and password. */
  smtp_url: string
  user: string
  /** The password; null: any password is accepted. */
  password: string | null
  faults: Faults
  requests: RequestLog
  /** The newest emails, oldest first. */
  messages: InboxMessage[]
  /** Size of `messages` in bytes. */
  bytes: number
  /** Cache of parsed emails. */
  read: WeakMap<InboxMessage, ReadEmail>
  effects: MessageEffect[]
  /** The file with all effects. */
  file: AppendFile | null
}

const MAX_MESSAGES = 5_000
const MAX_STORED_BYTES = 256 * 1024 * 1024
/** Maximum number of effects in memory. Older effects are only in the file. */
const MAX_EFFECTS = 100_000
const OWN_HEADER_PREFIX = 'x-sluice-'

/** The phases of a conversation that a fault can match. `DOT`: after the complete text, before its reply. */
export const PHASES = ['GREETING', 'EHLO', 'AUTH', 'MAIL', 'RCPT', 'DATA', 'BODY', 'DOT'] as const
export type Phase = (typeof PHASES)[number]

/** The phases to which the page can limit a fault: maps each label to the `match` of the fault's script. */
export const SMTP_FAULT_TARGETS: Record<string, object> = Object.fromEntries(
  PHASES.map((method) => [method, { method }]),
)

/** Adds a scripted fault. Throws InboxRefusal if the script is invalid. */
export function addSmtpFault(faults: Faults, script: unknown): Fault {
  return scriptFault(faults, script, { id: `flt_${crypto.randomUUID()}`, refuse: INBOX_ERRORS.parameter })
}

/** Stores an email and records its effect. */
export function storeMessage(
  emulator: SmtpEmulator,
  sender: string,
  to: string[],
  raw: Buffer,
): InboxMessage {
  const { messages, file } = emulator
  const message = { id: crypto.randomUUID(), sender, to, raw, received_at: new Date().toISOString() }
  messages.push(message)
  emulator.bytes += raw.length
  while (messages.length > MAX_MESSAGES || (emulator.bytes > MAX_STORED_BYTES && messages.length > 1))
    emulator.bytes -= messages.shift()!.raw.length
  const headers = readHeaders(raw)
  const own_headers = Object.entries(headers).filter(([name]) => name.startsWith(OWN_HEADER_PREFIX))
  const effect: MessageEffect = {
    seq: acceptedMessageCount(emulator) + 1,
    at: message.received_at,
    effect: 'message',
    id: message.id,
    message_id: headers['message-id'] ?? null,
    recipients: to.map((address) => recipientHash(headers['message-id'], address)),
    bytes: raw.length,
    metadata: Object.fromEntries(
      own_headers.map(([name, value]) => [name.slice(OWN_HEADER_PREFIX.length).replaceAll('-', '_'), value]),
    ),
  }
  storeMessageEffect(emulator, effect)
  file?.append(effect)
  return message
}

/** The same for each email with this Message-ID to this recipient. */
function recipientHash(message_id: string | undefined, address: string): string {
  return createHash('sha256').update(`${message_id}\u0000${address.toLowerCase()}`).digest('base64url')
}

/** Adds an effect and drops the oldest above MAX_EFFECTS. */
export function storeMessageEffect({ effects }: Pick<SmtpEmulator, 'effects'>, line: MessageEffect): void {
  effects.push(line)
  if (effects.length > MAX_EFFECTS) effects.shift()
}

/** The number of all accepted emails. */
export function acceptedMessageCount({ effects }: Pick<SmtpEmulator, 'effects'>): number {
  return effects.at(-1)?.seq ?? 0
}

/** Emails to this envelope address, or all, newest first. */
export function latestMessages({ messages }: SmtpEmulator, to?: string): InboxMessage[] {
  const recipient = to?.toLowerCase()
  return messages
    .filter(
      (each) => recipient === undefined || each.to.some((address) => address.toLowerCase() === recipient),
    )
    .toReversed()
}

/** The parsed email, cached. */
export function readMessage({ read }: SmtpEmulator, message: InboxMessage): ReadEmail {
  const cached = read.get(message)
  if (cached !== undefined) return cached
  const email = readEmail(message.raw)
  read.set(message, email)
  return email
}
