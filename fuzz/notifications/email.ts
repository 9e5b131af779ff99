// Invalid and unexpected bounces, complaints and deliveries of email (Standard Webhooks).
import { createHmac, randomUUID } from 'node:crypto'
import { type Arbitrary, constant, constantFrom, oneof, record, tuple } from 'fast-check'
import { NONEXISTENT_ID } from '../mutations.ts'
import { badText } from '../values.ts'
import { asFields, noticesOf, spoiledBodies, spoiling, toJson, type Fields, type Notifier } from './notice.ts'

const validEvent: Arbitrary<{ fields: Fields; data: Fields }> = record({
  type: constantFrom('email.bounced', 'email.complained', 'email.delivered', 'email.opened'),
  message_id: constantFrom('@{email}', '@{email}', '@{sms}', '@{other.email}', NONEXISTENT_ID, 'x'),
  address: constantFrom('@{address}', '@{address}', 'Ada <@{address}>', 'nobody@example.com', 'x'),
  bounce: constantFrom('hard', 'hard', 'soft', undefined),
  diagnostic: oneof(constantFrom('550 5.1.1 <@{address}> no such mailbox', undefined), badText),
}).map(({ type, ...data }) => ({
  fields: asFields({ type, timestamp: '2026-01-01T00:00:00Z' }),
  data: asFields(Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined))),
}))

const NAMES = ['type', 'timestamp', 'data', 'extra', '__proto__']
const NAMES_INSIDE = ['message_id', 'address', 'bounce', 'diagnostic', 'extra', '__proto__']

const event = tuple(validEvent, spoiling(NAMES), spoiling(NAMES_INSIDE)).map(
  ([{ fields, data }, spoil, spoilInside]) => {
    const own = spoil(fields)
    const has_data = own.some(([name]) => name === 'data')
    return toJson(has_data ? own : [...own, ['data', toJson(spoilInside(data))]])
  },
)

export const emailNotifier: Notifier = {
  name: 'email',
  trusted: true,
  cases: noticesOf(constant('/email'), 'application/json', spoiledBodies(event)),
  header: 'webhook-signature',
  sign(bytes, { secret, t, twice }) {
    const id = `msg_fuzz_${randomUUID()}`
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    const v1 = `v1,${createHmac('sha256', key).update(`${id}.${t}.`).update(bytes).digest('base64')}`
    return [
      ['webhook-id', id],
      ['webhook-timestamp', String(t)],
      ['webhook-signature', twice ? `${v1} ${v1}` : v1],
    ]
  },
}
