// Parses the webhooks of Twilio: status callbacks and inbound SMS.
import { z } from 'zod'
import { SMS } from '#core/config/providers.ts'
import type { MessageFailure } from '#core/outcome.ts'
import type { SmsStatus } from '../sms.ts'
import { twilioFailure } from './failures.ts'
import { smsStatusOf, STATUS_PATTERN } from './statuses.ts'

export type TwilioPost = { account: string; sid: string } & (
  | {
      kind: 'status'
      /** The status; null for a status that Sluice does not recognize. */
      status: SmsStatus | null
      /** The status as Twilio names it. */
      provider_status: string
      failure: MessageFailure | null
    }
  | {
      kind: 'inbound'
      from: string
      /** The number that received the SMS, and its messaging service, if any. */
      received_by: string[]
      body: string
      keyword: 'opt_out' | 'opt_in' | 'help' | 'other'
    }
)

/** The keywords to which Twilio reacts if the message contains nothing else. */
const KEYWORDS = {
  opt_out: ['STOP', 'STOPALL', 'UNSUBSCRIBE', 'CANCEL', 'END', 'QUIT', 'REVOKE', 'OPTOUT'],
  opt_in: ['START', 'YES', 'UNSTOP'],
  help: ['HELP', 'INFO'],
} as const
/** Twilio's own classification, which takes precedence over KEYWORDS. */
const OPT_OUT_TYPES = { STOP: 'opt_out', START: 'opt_in', HELP: 'help' } as const

const common = z.object({
  AccountSid: z
    .string()
    .regex(/^AC[0-9a-f]{32}$/)
    .optional(),
  MessageSid: z.string().regex(SMS.reference),
})
const callback = common.extend({
  MessageStatus: z.string().regex(STATUS_PATTERN),
  ErrorCode: z
    .string()
    .regex(/^\d{1,9}$/)
    .optional()
    .catch(undefined),
})
const inbound = common.extend({
  From: z.string().min(1).max(255),
  To: z.string().min(1).max(255),
  MessagingServiceSid: z.string().max(64).optional(),
  Body: z.string(),
  OptOutType: z.enum(['STOP', 'START', 'HELP']).optional().catch(undefined),
})

/** Parses the parameters of a post. Undefined if the post is neither a status callback nor an inbound message. */
export function readTwilioPost(posted: object): TwilioPost | undefined {
  const status_post = callback.safeParse(posted).data
  if (status_post !== undefined) {
    const { AccountSid: account = '', MessageSid: sid, MessageStatus, ErrorCode } = status_post
    const status = smsStatusOf(MessageStatus)
    const has_failed = status === 'failed' || status === 'undelivered'
    const failure = has_failed ? twilioFailure(ErrorCode === undefined ? null : Number(ErrorCode)) : null
    return { kind: 'status', account, sid, status, provider_status: MessageStatus, failure }
  }
  const inbound_post = inbound.safeParse(posted).data
  if (inbound_post === undefined) return undefined
  const {
    AccountSid: account = '',
    MessageSid: sid,
    From: from,
    To,
    MessagingServiceSid,
    OptOutType,
  } = inbound_post
  const keyword = OptOutType === undefined ? keywordOf(inbound_post.Body) : OPT_OUT_TYPES[OptOutType]
  const received_by = MessagingServiceSid === undefined ? [To] : [To, MessagingServiceSid]
  return { kind: 'inbound', account, sid, from, received_by, body: inbound_post.Body, keyword }
}

/** Compares letters and digits only, so that "Stop.", "opt out" and full-width letters match. */
export function keywordOf(body: string): 'opt_out' | 'opt_in' | 'help' | 'other' {
  const text = body
    .normalize('NFKC')
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
    .toUpperCase()
  for (const keyword of ['opt_out', 'opt_in', 'help'] as const)
    if (KEYWORDS[keyword].some((each) => each === text)) return keyword
  return 'other'
}
