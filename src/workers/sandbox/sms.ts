// The SMS provider of a sandbox: every SMS ends in the inbox, and arrives unless its number is a test number.
import type { AddressHash } from '#core/addresses.ts'
import { SMS } from '#core/config/providers.ts'
import type { Tx } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import { createInboundVault, inboundNotification } from '#domain/messages/inbound.ts'
import type { MessageProviderEvent } from '#domain/messages/update.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications, type Arrival } from '#domain/notifications/store.ts'
import { sandboxAccount } from '#domain/sandboxes/account.ts'
import { findInInbox, hasOptedOut, storeInInbox, type InboxMessage } from '#domain/sandboxes/inbox.ts'
import { SmsRefusal, smsUnsubscribed } from '#providers/sandbox/sms/refusal.ts'
import { checkRecipient, checkSms } from '#providers/sandbox/sms/rules.ts'
import type { OutgoingSms, ProviderSms, SmsProvider } from '#providers/sms.ts'
import { classifySmsLookup, classifySmsSend } from '#providers/twilio/classify.ts'
import { keywordOf } from '#providers/twilio/events.ts'
import { TwilioRefusal } from '#providers/twilio/messages.ts'
import type { SandboxHost } from './host.ts'
import type { Measure } from './measure.ts'

type SmsOptions = {
  host: SandboxHost
  tenant_id: string
  vault: Vault
  hashOf: AddressHash
}

/** The newest messages to a number in which one is searched. */
const SEARCHED_MESSAGES = 200
const NO_ATTACHMENTS = { subject: null, html: null, attachments: [] }

export function sandboxSms(options: SmsOptions, measured: Measure): SmsProvider {
  const { host, tenant_id, vault, hashOf } = options
  const findMessages = async (filter: Parameters<typeof findInInbox>[3]) =>
    (await host.transact(tenant_id, (tx) => findInInbox(tx, vault, tenant_id, filter))).filter(
      ({ channel, direction }) => channel === 'sms' && direction === 'sent',
    )
  return {
    sendSms: (sms) =>
      measured('send_sms', () =>
        host
          .transact(tenant_id, (tx) => send(tx, options, sms))
          .then(({ value, refusal }) => {
            if (refusal !== null) throw refusal
            return { kind: 'done', value } as const
          })
          .catch(classifySmsSend),
      ),
    findSms: (reference) =>
      measured('find_sms', () =>
        findMessages({ limit: 1, reference })
          .then(([found]) => ({ kind: 'done', value: found === undefined ? null : smsOf(found) }) as const)
          .catch(classifySmsLookup),
      ),
    searchSms: ({ from, to, body, since_s }) =>
      measured('search_sms', () =>
        findMessages({ limit: SEARCHED_MESSAGES, person: hashOf('sms', to), since_s })
          .then((found) => {
            const matching = found.filter((each) => each.from === from && each.text === body)
            return { kind: 'done', value: matching.toReversed().map(smsOf) } as const
          })
          .catch(classifySmsLookup),
      ),
    // A database that has gone back in time has lost the inbox, too.
    listReceived: () => Promise.resolve({ kind: 'done', value: { received: [], unreadable: 0, next: null } }),
    close: () => Promise.resolve(),
  }
}

/** Stores an SMS and its delivery. A refusal is a value: nothing is stored. */
async function send(
  tx: Tx,
  { tenant_id, vault, hashOf }: SmsOptions,
  { from, to, body, callback_url }: OutgoingSms,
): Promise<{ value: ProviderSms; refusal: null } | { value: null; refusal: TwilioRefusal }> {
  const [person, sender] = [hashOf('sms', to), hashOf('sms', from)]
  try {
    const service = from.startsWith('MG') ? from : null
    checkRecipient(to, checkSms({ to, from: service === null ? from : null, service, body }))
    if (await hasOptedOut(tx, tenant_id, { person, sender })) throw smsUnsubscribed()
  } catch (error) {
    if (!(error instanceof SmsRefusal)) throw error
    return { value: null, refusal: new TwilioRefusal(error.status, error.code, error.message, undefined) }
  }
  const reference = newSid()
  await storeInInbox(tx, vault, tenant_id, {
    ...NO_ATTACHMENTS,
    channel: 'sms',
    direction: 'sent',
    reference,
    person,
    sender,
    status: 'delivered',
    keyword: null,
    from,
    to: [to],
    text: body,
  })
  const message_id = callback_url === null ? null : new URL(callback_url).searchParams.get('m')
  if (message_id !== null) await storeNotifications(tx, [deliveryOf(tenant_id, message_id, reference)])
  const status = message_id === null ? 'delivered' : 'sent'
  return { value: { reference, status, provider_status: status, failure: null, price: null }, refusal: null }
}

/** The report that an SMS has arrived. */
function deliveryOf(tenant_id: string, message_id: string, reference: string): Arrival {
  const payload: MessageProviderEvent = {
    about: 'sms',
    message_id,
    reference,
    status: 'delivered',
    provider_status: 'delivered',
    failure: null,
  }
  const event = {
    account: sandboxAccount(tenant_id),
    event_id: `${reference}:delivered`,
    kind: 'sms.delivered',
    object_id: reference,
    payload,
    is_relevant: true,
    reported: null,
    will_wake: false,
    request_id: null,
  }
  return notificationOf({ provider: SMS.provider, livemode: false }, event)
}

/**
 * Stores an SMS with which a person answers the sender of a message, and reports it as an SMS provider does.
 * `address_key`: ADDRESS_KEY.
 */
export async function storeAnswer(
  tx: Tx,
  {
    tenant_id,
    vault,
    hashOf,
    address_key,
  }: Pick<SmsOptions, 'tenant_id' | 'vault' | 'hashOf'> & { address_key: string },
  { from, to, body }: { from: string; to: string; body: string },
): Promise<void> {
  const sid = newSid()
  const keyword = keywordOf(body)
  await storeInInbox(tx, vault, tenant_id, {
    ...NO_ATTACHMENTS,
    channel: 'sms',
    direction: 'received',
    reference: sid,
    person: hashOf('sms', from),
    sender: hashOf('sms', to),
    status: 'received',
    keyword,
    from,
    to: [to],
    text: body,
  })
  const sealing = { vault: createInboundVault(address_key), hashOf }
  const account = sandboxAccount(tenant_id)
  const received = {
    livemode: false,
    account,
    sid,
    from,
    received_by: [to],
    body,
    keyword,
    received_at: null,
  }
  const notification = inboundNotification(sealing, received)
  await storeNotifications(tx, [{ ...notification, will_wake: false, request_id: null }])
}

function smsOf({ reference, status }: InboxMessage): ProviderSms {
  const reported = status === 'received' ? 'delivered' : status
  return { reference, status: reported, provider_status: reported, failure: null, price: null }
}

/** An id in the form of the provider's. */
function newSid(): string {
  return `SM${crypto.randomUUID().replaceAll('-', '')}`
}
