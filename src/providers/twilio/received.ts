// Lists the SMS that an account has received.
import type { MessageInstance, MessageListInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS } from '#core/config/providers.ts'
import { NoAnswer } from '../http.ts'
import type { ReceivedSms, SmsProvider } from '../sms.ts'
import { keywordOf } from './events.ts'
import { isService } from './search.ts'

type ReceivedList = Parameters<SmsProvider['listReceived']>[0]

/** The maximum of Twilio. The list has sent messages too: the API cannot select by direction. */
const MAX_PAGE_SIZE = 1_000
const MAX_ADDRESS_LENGTH = 2_000

/** A page of the list. The API selects by day, so the messages of the first day are compared with `from_s`. */
export async function listReceived(
  messages: MessageListInstance,
  { from_s, page, page_size = MAX_PAGE_SIZE }: ReceivedList,
): Promise<{ received: ReceivedSms[]; next: string | null }> {
  const from = new Date(from_s * 1000)
  const { instances, nextPageUrl } =
    page === null
      ? await messages.page({ dateSentAfter: from, pageSize: page_size })
      : await messages.getPage(page)
  if (nextPageUrl !== undefined && nextPageUrl.length > MAX_ADDRESS_LENGTH)
    throw new NoAnswer('unreadable answer: the address of the next page is too long', { sent: true })
  const received = instances
    .filter(({ direction }) => direction === 'inbound')
    .map(readReceived)
    .filter(({ received_at }) => Date.parse(received_at) >= from_s * 1000)
  return { received, next: nextPageUrl ?? null }
}

type ReceivedField = 'accountSid' | 'sid' | 'from' | 'to' | 'messagingServiceSid' | 'body' | 'dateCreated'

/** Throws NoAnswer if the message cannot be read, because the SDK's types do not prove what an answer contains. */
function readReceived(message: MessageInstance): ReceivedSms {
  const { accountSid, sid, from, to, messagingServiceSid, body, dateCreated } = message as {
    [Each in ReceivedField]: unknown
  }
  const is_complete =
    typeof accountSid === 'string' &&
    typeof sid === 'string' &&
    SMS.reference.test(sid) &&
    typeof from === 'string' &&
    typeof to === 'string' &&
    typeof body === 'string' &&
    dateCreated instanceof Date &&
    !Number.isNaN(dateCreated.getTime())
  if (!is_complete) throw new NoAnswer('unreadable answer: a received message is incomplete', { sent: true })
  const service = typeof messagingServiceSid === 'string' && isService(messagingServiceSid)
  return {
    account: accountSid,
    sid,
    from,
    received_by: service ? [to, messagingServiceSid] : [to],
    body,
    keyword: keywordOf(body),
    received_at: dateCreated.toISOString(),
  }
}
