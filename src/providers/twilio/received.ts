// Lists the SMS that an account has received.
import type { MessageInstance, MessageListInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS } from '#core/config/providers.ts'
import { NoAnswer } from '../http.ts'
import type { ReceivedPage, ReceivedSms, SmsProvider } from '../sms.ts'
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
): Promise<ReceivedPage> {
  const from = new Date(from_s * 1000)
  const { instances, nextPageUrl } =
    page === null
      ? await messages.page({ dateSentAfter: from, pageSize: page_size })
      : await messages.getPage(page)
  if (nextPageUrl !== undefined && nextPageUrl.length > MAX_ADDRESS_LENGTH)
    throw new NoAnswer('unreadable answer: the address of the next page is too long', { sent: true })
  const read = instances.filter(({ direction }) => direction === 'inbound').map(readReceived)
  const readable = read.filter((each) => each !== null)
  return {
    received: readable.filter(({ received_at }) => Date.parse(received_at) >= from_s * 1000),
    unreadable: read.length - readable.length,
    next: nextPageUrl ?? null,
  }
}

type ReceivedField = 'accountSid' | 'sid' | 'from' | 'to' | 'messagingServiceSid' | 'body' | 'dateCreated'

/** Null if the message lacks a field: the SDK's types do not prove what an answer contains. */
function readReceived(message: MessageInstance): ReceivedSms | null {
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
  if (!is_complete) return null
  const keyword = keywordOf(body)
  // Twilio's times are whole seconds. Of several keywords in one second, an opt-out counts as the last.
  const received_ms = dateCreated.getTime() + (keyword === 'opt_out' ? 999 : 0)
  const service = typeof messagingServiceSid === 'string' && isService(messagingServiceSid)
  return {
    account: accountSid,
    sid,
    from,
    received_by: service ? [to, messagingServiceSid] : [to],
    body,
    keyword,
    received_at: new Date(received_ms).toISOString(),
  }
}
