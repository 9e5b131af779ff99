// Invalid and unexpected status callbacks and inbound SMS of Twilio.
import { createHmac } from 'node:crypto'
import { type Arbitrary, array, constant, constantFrom, nat, oneof, record, tuple } from 'fast-check'
import { NONEXISTENT_ID } from '../mutations.ts'
import { badSegment, badText } from '../values.ts'
import { noticesOf, spoiledBodies, type Notifier } from './notice.ts'

/** The emulator's account. */
const ACCOUNT = `AC${'0'.repeat(32)}`
const STATUSES = ['queued', 'sent', 'delivered', 'undelivered', 'failed', 'read', 'read', 'lost', '']
const KEYWORDS = ['STOP', ' stop ', 'START', 'HELP', 'Hello', 'STOP it', '']

type Params = Record<string, string>

/** The SID of an unknown message. */
const unknownSid = nat().map((number) => `SM${number.toString(16).padStart(32, '0')}`)
const sid = oneof(
  { weight: 4, arbitrary: constant('@{sms_reference}') },
  { weight: 2, arbitrary: unknownSid },
  { weight: 1, arbitrary: constantFrom('@{other.sms_reference}', 'SM1', '') },
)

const callback: Arbitrary<Params> = record({
  MessageSid: sid,
  MessageStatus: constantFrom(...STATUSES),
  ErrorCode: constantFrom('', '30003', '30008', '21610', '99999999999999999999', 'x'),
  To: constantFrom('@{number}', '+15005550006', 'x'),
  From: constantFrom('@{sender}', 'MG00000000000000000000000000000000', 'x'),
})
const inbound: Arbitrary<Params> = record({
  MessageSid: oneof({ weight: 9, arbitrary: unknownSid }, sid),
  SmsStatus: constantFrom('received'),
  From: constantFrom('@{number}', '@{number}', '+15005550006', 'x', ''),
  To: constantFrom('@{sender}', '@{sender}', 'x', ''),
  Body: oneof(constantFrom(...KEYWORDS), badText),
  OptOutType: constantFrom('', 'STOP', 'START', 'HELP', 'x'),
})

const NAMES = ['MessageSid', 'MessageStatus', 'AccountSid', 'To', 'From', 'Body', '__proto__', 'a[b]', '']

const text = tuple(
  oneof(callback, inbound),
  oneof(
    { weight: 2, arbitrary: constant([]) },
    array(tuple(constantFrom(...NAMES), badText), { minLength: 1, maxLength: 1 }),
  ),
  oneof({ weight: 9, arbitrary: constant(ACCOUNT) }, constantFrom('AC0', '')),
).map(([params, extra, AccountSid]) =>
  [...Object.entries({ AccountSid, ...params }), ...extra]
    .map(([name, value]) => `${encodeURIComponent(name)}=${escaped(value)}`)
    .join('&'),
)

// Encodes a value for a form, except its placeholders.
function escaped(value: string): string {
  return value
    .split(/(@\{[\w.]+\})/)
    .map((part) => (part.startsWith('@{') ? part : encodeURIComponent(part)))
    .join('')
}

const path = oneof(
  {
    weight: 9,
    arbitrary: constantFrom(
      '/twilio?m=@{sms}',
      '/twilio?m=@{sms}',
      '/twilio?m=@{email}',
      '/twilio?m=@{other.sms}',
      `/twilio?m=${NONEXISTENT_ID}`,
      '/twilio?m=',
      '/twilio?m=1&m=2',
      '/twilio',
      '/twilio',
    ),
  },
  { weight: 1, arbitrary: badSegment.map((segment) => `/twilio?m=${segment}`) },
)

export const twilioNotifier: Notifier = {
  name: 'twilio',
  trusted: true,
  cases: noticesOf(path, 'application/x-www-form-urlencoded', spoiledBodies(text)),
  header: 'x-twilio-signature',
  sign(bytes, { url, secret, twice }) {
    const params = Array.from(new URLSearchParams(bytes.toString('latin1')))
    const sorted = params.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    const signed = url + sorted.map(([name, value]) => name + value).join('')
    const signature = createHmac('sha1', secret).update(signed, 'utf8').digest('base64')
    return [['x-twilio-signature', twice ? `${signature},${signature}` : signature]]
  },
}
