// The messages part of Twilio's SDK, which sends through our guarded HTTP client. The rest of the SDK, with its own
// client, is not loaded.
import { createRequire } from 'node:module'
import type domains from 'twilio/lib/base/Domain.js'
import type versions from 'twilio/lib/base/Version.js'
import { MessageListInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { stringEntries, NoAnswer, type HttpClient } from '../http.ts'

// Loaded with `require`, because the meaning of a CommonJS default import depends on the loader.
const require = createRequire(import.meta.url)
const { default: Domain } = require('twilio/lib/base/Domain.js') as typeof domains
const { default: Version } = require('twilio/lib/base/Version.js') as typeof versions

const TWILIO = 'https://api.twilio.com'
const API_VERSION = '2010-04-01'

type TwilioDomain = ConstructorParameters<typeof Version>[0]
type TwilioClient = TwilioDomain['twilio']
type TwilioRequest = Parameters<TwilioClient['request']>[0]

/** A readable error answer. The request had no effect. */
export class TwilioRefusal extends Error {
  override name = 'TwilioRefusal'
  status: number
  /** Twilio's error code. Null if the answer has none: then the status is one of FINAL_STATUSES. */
  code: number | null
  retry_after: string | undefined

  constructor(status: number, code: number | null, message: string, retry_after: string | undefined) {
    super(message)
    this.status = status
    this.code = code
    this.retry_after = retry_after
  }
}

/** `auth_token`: read for each call, so that it may be replaced. */
export type TwilioAccount = { readonly account_sid: string; readonly auth_token: string }

/**
 * The messages of an account, for one call: all its requests, including pages, take at most `deadline_ms` in total. The
 * requests reject as `HttpClient` does, and with `TwilioRefusal`.
 */
export function accountMessages(
  http: HttpClient,
  { account_sid, auth_token }: TwilioAccount,
  deadline_ms: number,
): MessageListInstance {
  const deadline = performance.now() + deadline_ms
  const authorization = `Basic ${Buffer.from(`${account_sid}:${auth_token}`).toString('base64')}`

  async function request({ method, uri = '', headers = {}, params, data }: TwilioRequest) {
    const remaining_ms = Math.ceil(deadline - performance.now())
    if (remaining_ms <= 0)
      throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true, late: true })
    // The host of the SDK or of a page link is ignored: the client has a fixed host.
    const { pathname, search } = new URL(uri)
    const answer = await http.send(
      {
        method: method === 'post' ? 'POST' : 'GET',
        path: pathname + (params === undefined ? search : `?${formOf(params)}`),
        headers: { ...stringEntries(headers), authorization, 'user-agent': 'sluice' },
        body: data === undefined ? null : formOf(data),
      },
      remaining_ms,
    )
    const { status, body } = answer
    if (status >= 200 && status < 300) return { statusCode: status, body, headers: answer.headers }
    throw refusalOf(answer)
  }

  // The SDK uses only these members of its client.
  const client = { accountSid: account_sid, request } as TwilioClient
  const version = new Version(new Domain(client, TWILIO), API_VERSION)
  return MessageListInstance(version as MessageListInstance['_version'], account_sid)
}

function formOf(fields: object): string {
  return new URLSearchParams(stringEntries(fields)).toString()
}

/** Statuses that prove that the request had no effect, even without an error code. */
const FINAL_STATUSES = [401, 403, 429]

/** The error for an answer other than 2xx, in one of Twilio's two formats. */
function refusalOf({
  status,
  headers,
  body,
}: {
  status: number
  headers: Record<string, string>
  body: Record<string, unknown>
}): Error {
  const code = /^[1-9]\d*$/.test(String(body['code'])) ? Number(body['code']) : null
  if (status < 400 || (code === null && !FINAL_STATUSES.includes(status)))
    return new NoAnswer(`unreadable answer: ${status} without a code`, { sent: true, status })
  const [reported = ''] = [body['detail'], body['message'], body['title']].filter(
    (text) => typeof text === 'string',
  )
  return new TwilioRefusal(status, code, reported, headers['retry-after'])
}
