// Sends and looks up SMS at Twilio: every call is classified and reported to `onCall`.
import assert from 'node:assert/strict'
import type { MessageListInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS, type ProviderOperation } from '#core/config/providers.ts'
import type { Outcome } from '#core/outcome.ts'
import type { SendOutcome } from '../email.ts'
import { NoAnswer, openHttp, type FinishedCall } from '../http.ts'
import type { ProviderSms, ReceivedPage, SmsProvider } from '../sms.ts'
import { classifySmsLookup, classifySmsSend, isUnknownSms } from './classify.ts'
import { accountMessages, type TwilioAccount } from './messages.ts'
import { readSms } from './read.ts'
import { listReceived } from './received.ts'
import { isService, searchMessages } from './search.ts'

export type TwilioOptions = TwilioAccount & {
  /** Null: Twilio's API. */
  api_base: string | null
  /** The limit of a complete call with all its pages, in milliseconds. Default: 15,000. */
  deadline_ms?: number
  onCall?: (call: FinishedCall) => void
}

/** Opens the SMS provider for one Twilio account. */
export function openTwilio(options: TwilioOptions): SmsProvider {
  const { api_base, deadline_ms = 15_000, onCall } = options
  const http = openHttp(api_base ?? 'https://api.twilio.com')

  async function call<Value, Failed extends { kind: Outcome<unknown>['kind'] }>(
    operation: ProviderOperation,
    request: (messages: MessageListInstance) => Promise<Value>,
    classify: (error: unknown) => Failed,
  ): Promise<{ kind: 'done'; value: Value } | Failed> {
    const started = performance.now()
    const outcome = await request(accountMessages(http, options, deadline_ms)).then(
      (value) => ({ kind: 'done' as const, value }),
      classify,
    )
    onCall?.({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  return {
    sendSms: async ({ from, to, body, validity_s, callback_url }): Promise<SendOutcome<ProviderSms>> =>
      await call(
        'send_sms',
        async (messages) =>
          readSms(
            await messages.create({
              to,
              body,
              ...(isService(from) ? { messagingServiceSid: from } : { from }),
              ...(validity_s !== null && { validityPeriod: validity_s }),
              ...(callback_url !== null && { statusCallback: callback_url }),
            }),
          ),
        classifySmsSend,
      ),
    findSms: async (reference): Promise<Outcome<ProviderSms | null>> => {
      assert(SMS.reference.test(reference), `the reference "${reference}" is not a message SID`)
      return await call('find_sms', async (messages) => await find(messages, reference), classifySmsLookup)
    },
    searchSms: async (search): Promise<Outcome<ProviderSms[]>> =>
      await call('search_sms', async (messages) => await searchMessages(messages, search), classifySmsLookup),
    listReceived: async (list): Promise<Outcome<ReceivedPage>> =>
      await call(
        'list_received_sms',
        async (messages) => await listReceived(messages, list),
        classifySmsLookup,
      ),
    close: () => http.close(),
  }
}

async function find(messages: MessageListInstance, reference: string): Promise<ProviderSms | null> {
  try {
    const found = readSms(await messages.get(reference).fetch())
    if (found.reference === reference) return found
  } catch (error) {
    if (isUnknownSms(error)) return null
    throw error
  }
  throw new NoAnswer('unreadable answer: not the requested message', { sent: true })
}
