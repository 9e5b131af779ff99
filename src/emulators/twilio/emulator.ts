// The state of the Twilio emulator and its record of messages.
import type { AppendFile } from '../shared/append-file.ts'
import { scriptFault, type Fault, type Faults } from '../shared/faults.ts'
import type { RequestLog } from '../shared/requests.ts'
import type { CallbackSender } from './callbacks.ts'
import { SMS_ERRORS } from './errors.ts'

export type SentSmsStatus =
  | 'accepted'
  | 'queued'
  | 'sending'
  | 'sent'
  | 'delivered'
  | 'undelivered'
  | 'failed'
  | 'canceled'
  | 'read'
  | 'received'

/** A message. Its numbers and text are in memory only. */
export type SentSms = {
  sid: string
  direction: 'outbound-api' | 'inbound'
  to: string
  /** Null until the messaging service has chosen a number. */
  from: string | null
  messaging_service_sid: string | null
  body: string
  segments: number
  status: SentSmsStatus
  error_code: number | null
  callback_url: string | null
  created_ms: number
  updated_ms: number
  sent_ms: number | null
  is_priced: boolean
}

/** The record of an accepted message, without its numbers and text. */
export type SmsEffect = {
  /** Sequence number, from 1 without gaps. */
  seq: number
  /** Time of the real clock (ISO 8601). */
  at: string
  effect: 'message'
  sid: string
  messaging_service_sid: string | null
  segments: number
  metadata: Record<string, string>
}

export type TwilioEmulator = {
  url: string
  account_sid: string
  auth_token: string
  /** Receiver of inbound messages; null: none. */
  webhook_url: string | null
  /** Time between automatic status changes. */
  pace_ms: number
  faults: Faults
  requests: RequestLog
  /** The newest messages, oldest first. */
  messages: Map<string, SentSms>
  /** The newest received messages, oldest first. */
  received: SentSms[]
  /** The newest effects. */
  effects: SmsEffect[]
  /** The file with all effects. */
  file: AppendFile | null
  /** Opt-outs: `<recipient> <sender or messaging service>`. */
  opted_out: Set<string>
  callbacks: CallbackSender
}

const MAX_MESSAGES = 50_000
/** Maximum number of effects in memory. Older effects are only in the file. */
const MAX_EFFECTS = 100_000

/** Adds a message and drops the oldest above MAX_MESSAGES. */
export function storeSms({ messages }: TwilioEmulator, sms: SentSms): void {
  messages.set(sms.sid, sms)
  if (messages.size > MAX_MESSAGES) for (const sid of messages.keys()) return void messages.delete(sid)
}

/** Adds a received message and drops the oldest above MAX_MESSAGES. */
export function storeReceived({ received }: TwilioEmulator, sms: SentSms): void {
  received.push(sms)
  if (received.length > MAX_MESSAGES) received.shift()
}

/** Adds an effect and drops the oldest above MAX_EFFECTS. */
export function storeSmsEffect({ effects }: Pick<TwilioEmulator, 'effects'>, line: SmsEffect): void {
  effects.push(line)
  if (effects.length > MAX_EFFECTS) effects.shift()
}

/** The number of all accepted messages. */
export function acceptedSmsCount({ effects }: Pick<TwilioEmulator, 'effects'>): number {
  return effects.at(-1)?.seq ?? 0
}

/** Messages to one number, or all, newest first. */
export function newestMessages({ messages }: TwilioEmulator, to?: string): SentSms[] {
  return [...messages.values()].filter((sms) => to === undefined || sms.to === to).toReversed()
}

/** The requests to which the page can limit a fault: maps each label to the `match` of the fault's script. */
export const SMS_FAULT_TARGETS: Record<string, object> = {
  'any request': {},
  sending: { method: 'POST', path: '/Messages\\.json$' },
  'looking for messages': { method: 'GET', path: '/Messages' },
}

/** Adds a scripted fault. Throws SmsRefusal if the script is invalid. */
export function addSmsFault(faults: Faults, script: unknown): Fault {
  return scriptFault(faults, script, { id: `flt_${crypto.randomUUID()}`, refuse: SMS_ERRORS.parameter })
}

/** An id in Twilio's format: two letters and 32 hexadecimal digits. */
export function newSid(prefix: 'SM' | 'RQ'): string {
  return prefix + crypto.randomUUID().replaceAll('-', '')
}
