// Inbound messages: posted to the webhook. Opt-out keywords are applied to later messages.
import { optOutKeyOf } from './create.ts'
import { newSid, storeReceived, type TwilioEmulator } from './emulator.ts'
import { SMS_ERRORS } from './errors.ts'

const NUMBER = /^\+[1-9]\d{6,14}$/

/** Keywords of opt-out messages by type. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  STOP: ['STOP', 'STOPALL', 'UNSUBSCRIBE', 'CANCEL', 'END', 'QUIT', 'REVOKE', 'OPTOUT'],
  START: ['START', 'YES', 'UNSTOP'],
  HELP: ['HELP', 'INFO'],
}
const MAX_OPTED_OUT = 100_000

export type InboundSms = {
  from: string
  /** A number of the account. */
  to: string
  body: string
  /** The opt-out type, which Twilio sends if the account uses Advanced Opt-Out. */
  opt_out_type?: string | undefined
  messaging_service_sid?: string | undefined
}

function optOut({ opted_out }: TwilioEmulator, pair: string): void {
  opted_out.add(pair)
  const [oldest] = opted_out
  if (opted_out.size > MAX_OPTED_OUT) opted_out.delete(oldest!)
}

/** Stores an inbound message, and posts it to the webhook. Resolves with its answer; status 0: no answer. */
export async function receiveSms(
  emulator: TwilioEmulator,
  { from, to, body, opt_out_type, messaging_service_sid }: InboundSms,
): Promise<{ sid: string; status: number; body: string }> {
  if (!NUMBER.test(from)) throw SMS_ERRORS.parameter('must be a number', 'from')
  if (to === '') throw SMS_ERRORS.parameter('must be one of our numbers', 'to')
  if (emulator.webhook_url === null) throw SMS_ERRORS.of(400, 'No webhook URL is configured.')
  const keyword = body.trim().toUpperCase()
  const meaning = opt_out_type ?? Object.keys(KEYWORDS).find((each) => KEYWORDS[each]!.includes(keyword))
  const pair = optOutKeyOf(from, messaging_service_sid ?? to)
  if (meaning === 'STOP') optOut(emulator, pair)
  if (meaning === 'START') emulator.opted_out.delete(pair)
  const sid = newSid('SM')
  const now_ms = Date.now()
  storeReceived(emulator, {
    sid,
    direction: 'inbound',
    to,
    from,
    messaging_service_sid: messaging_service_sid ?? null,
    body,
    segments: 1,
    status: 'received',
    error_code: null,
    callback_url: null,
    created_ms: now_ms,
    updated_ms: now_ms,
    sent_ms: now_ms,
    is_priced: false,
  })
  const answer = await emulator.callbacks.post(emulator.webhook_url, {
    MessageSid: sid,
    SmsSid: sid,
    SmsMessageSid: sid,
    SmsStatus: 'received',
    AccountSid: emulator.account_sid,
    ApiVersion: '2010-04-01',
    From: from,
    To: to,
    Body: body,
    NumMedia: '0',
    NumSegments: '1',
    ...(messaging_service_sid !== undefined && { MessagingServiceSid: messaging_service_sid }),
    ...(opt_out_type !== undefined && { OptOutType: opt_out_type }),
  })
  return { sid, ...answer }
}
