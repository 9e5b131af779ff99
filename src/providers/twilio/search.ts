// Searches the list of messages to a number for an SMS whose id at Twilio is not known.
import type {
  MessageInstance,
  MessageListInstance,
  MessagePage,
} from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS } from '#core/config/providers.ts'
import { NoAnswer } from '../http.ts'
import type { ProviderSms, SmsProvider } from '../sms.ts'
import { readSms } from './read.ts'

type SmsSearch = Parameters<SmsProvider['searchSms']>[0]

const PAGE_SIZE = 200
const MAX_PAGES = 20
/** The text that trial accounts put before each message. */
const TRIAL_PREFIX = 'Sent from your Twilio trial account - '

/** Whether `from` is a messaging service, which chooses the number by itself. */
export function isService(from: string): boolean {
  return from.startsWith('MG')
}

/** The matching messages, oldest first. Rejects with NoAnswer if the list has too many pages to be read to its end. */
export async function searchMessages(
  messages: MessageListInstance,
  search: SmsSearch,
): Promise<ProviderSms[]> {
  const { from, to, since_s } = search
  const found: MessageInstance[] = []
  let page: Pick<MessagePage, 'instances' | 'nextPage'> = await messages.page({
    to,
    ...(!isService(from) && { from }),
    pageSize: PAGE_SIZE,
  })
  for (let pages = 1; ; pages++) {
    const recent = page.instances.filter((listed) => createdAt(listed) >= since_s)
    found.push(...recent.filter((listed) => matches(listed, search)))
    const next = recent.length === 0 ? undefined : page.nextPage()
    if (next === undefined) return found.toReversed().map(readSms)
    if (pages === MAX_PAGES) throw new NoAnswer('the list of messages is too long', { sent: true })
    page = await next
  }
}

function matches(listed: MessageInstance, { from, body }: SmsSearch): boolean {
  return (
    SMS.reference.test(listed.sid) &&
    (listed.body === body || listed.body === TRIAL_PREFIX + body) &&
    (!isService(from) || listed.messagingServiceSid === from)
  )
}

/** The creation time in whole unix seconds, which is the resolution of Twilio. */
function createdAt({ dateCreated }: MessageInstance): number {
  // If the SDK cannot parse a date, it returns the original text.
  const created_ms = dateCreated instanceof Date ? dateCreated.getTime() : NaN
  if (!Number.isFinite(created_ms))
    throw new NoAnswer('unreadable answer: a message without a date', { sent: true })
  return Math.floor(created_ms / 1000)
}
