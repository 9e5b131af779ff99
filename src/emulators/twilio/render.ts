// Messages in the format of Twilio's API.
import { smsInvalid } from '#providers/sandbox/sms/refusal.ts'
import { newestMessages, type SentSms, type TwilioEmulator } from './emulator.ts'
import { checkList } from './parameters.ts'

const PRICE_OF_SEGMENT = 0.0079
const DEFAULT_PAGE_SIZE = 50
const MAX_PAGE_SIZE = 1000

/** The path of the messages of an account, without `.json`. */
export function messagesPath(account_sid: string): string {
  return `/2010-04-01/Accounts/${account_sid}/Messages`
}

/** A message in the format of Twilio's API. */
export function renderSms(account_sid: string, sms: SentSms): object {
  const { sid, to, from, messaging_service_sid, body, segments, status, error_code, direction } = sms
  const path = `${messagesPath(account_sid)}/${sid}`
  return {
    account_sid,
    api_version: '2010-04-01',
    body,
    date_created: rfc2822(sms.created_ms),
    date_sent: sms.sent_ms === null ? null : rfc2822(sms.sent_ms),
    date_updated: rfc2822(sms.updated_ms),
    direction,
    error_code,
    error_message: error_code === null ? null : `The message to ${to} failed with error ${error_code}`,
    from,
    messaging_service_sid,
    num_media: '0',
    // With a messaging service, the number of segments is known only after the service has chosen a number.
    num_segments: from === null ? '0' : String(segments),
    price: sms.is_priced ? `-${(PRICE_OF_SEGMENT * segments).toFixed(5)}` : null,
    price_unit: 'USD',
    sid,
    status,
    subresource_uris: { media: `${path}/Media.json` },
    to,
    uri: `${path}.json`,
  }
}

/** A page of the messages that match the query, newest first. */
export function listMessages(emulator: TwilioEmulator, query: URLSearchParams): object {
  const { account_sid } = emulator
  checkList(query)
  const page_size = Number(query.get('PageSize') ?? DEFAULT_PAGE_SIZE)
  if (page_size < 1 || page_size > MAX_PAGE_SIZE)
    throw smsInvalid(20001, `The 'PageSize' is not between 1 and ${MAX_PAGE_SIZE}.`)
  const to = query.get('To')
  const received = emulator.received.filter((sms) => to === null || sms.to === to).toReversed()
  const matching = [...newestMessages(emulator, to ?? undefined), ...received]
    .filter((sms) => matchesQuery(sms, query))
    .toSorted((one, other) => other.created_ms - one.created_ms)
  const token = query.get('PageToken')
  const start = token === null ? 0 : matching.findIndex(({ sid }) => sid === token.slice(2)) + 1
  const page = Number(query.get('Page') ?? 0)
  const listed = matching.slice(start, start + page_size)
  const uri = (changes: Record<string, string>) => {
    const all = new URLSearchParams({ ...Object.fromEntries(query), PageSize: String(page_size), ...changes })
    return `${messagesPath(account_sid)}.json?${all.toString()}`
  }
  const has_more = start + listed.length < matching.length
  return {
    messages: listed.map((sms) => renderSms(account_sid, sms)),
    start,
    end: start + Math.max(listed.length - 1, 0),
    page,
    page_size,
    uri: uri({}),
    first_page_uri: uri({ Page: '0' }),
    next_page_uri: has_more ? uri({ Page: String(page + 1), PageToken: `PA${listed.at(-1)!.sid}` }) : null,
    previous_page_uri: null,
  }
}

/**
 * `DateSent` selects one day, `DateSent<` that day and all days before it, `DateSent>` that day and all days after
 * it.
 */
function matchesQuery({ from, sent_ms }: SentSms, query: URLSearchParams): boolean {
  const day = sent_ms === null ? null : new Date(sent_ms).toISOString().slice(0, 10)
  const matchesDay = (name: string, compare: (day: string, matching: string) => boolean) => {
    const matching = query.get(name)?.slice(0, 10)
    return matching === undefined || (day !== null && compare(day, matching))
  }
  return (
    (query.get('From') ?? from) === from &&
    matchesDay('DateSent', (is, matching) => is === matching) &&
    matchesDay('DateSent<', (is, matching) => is <= matching) &&
    matchesDay('DateSent>', (is, matching) => is >= matching)
  )
}

function rfc2822(at_ms: number): string {
  return new Date(at_ms).toUTCString().replace('GMT', '+0000')
}
