// The API: authentication, scripted faults, and messages: create, list and fetch.
import { createHash, timingSafeEqual } from 'node:crypto'
import { twilioFailed, SmsRefusal } from '#providers/sandbox/sms/refusal.ts'
import { nextFault } from '../shared/faults.ts'
import { header, send, type Exchange } from '../shared/http.ts'
import { respondWithFault, type EmulatedResponse } from '../shared/fault-response.ts'
import { logRequest, type LoggedRequest } from '../shared/requests.ts'
import { createMessage, LOST_NUMBER } from './create.ts'
import { newSid, type TwilioEmulator } from './emulator.ts'
import { twilioBusy, twilioKeyRefused, smsNotFound, SMS_ERRORS } from './errors.ts'
import { listMessages, messagesPath, renderSms } from './render.ts'

/** Error answers by action. Other actions do not apply to Twilio. */
const REFUSALS = {
  error_500: () => refused(twilioFailed()),
  rate_limited_429: () => refused(twilioBusy()),
  refuse_401: () => refused(twilioKeyRefused()),
  conflict_409: () => refused(new SmsRefusal(409, 20409, 'Conflict')),
}

type SmsRequest = { exchange: Exchange; request_id: string; log: LoggedRequest | null }

/** Handles every request except the page and the controls. */
export function answerTwilioApi(emulator: TwilioEmulator, exchange: Exchange): void {
  const { response, method, path } = exchange
  const request_id = newSid('RQ')
  const log = logRequest(emulator.requests, { method, path, idempotency_key: null, request_id })
  response.once('close', () => {
    if (log !== null && !response.writableEnded) log.refusal = 'the connection was cut'
  })
  respond(emulator, { exchange, request_id, log }).catch((error: unknown) => {
    console.error(error)
    response.destroy()
  })
}

async function respond(emulator: TwilioEmulator, sms_request: SmsRequest): Promise<void> {
  const { exchange, log } = sms_request
  const { method, path, query, body } = exchange
  if (!isAuthenticated(emulator, exchange)) return reply(sms_request, refused(twilioKeyRefused()))
  const perform = () => Promise.resolve(respondTo(emulator, exchange))
  const text = [path, ...new URLSearchParams(`${query}&${body}`).values()].join('\n')
  const fault = nextFault(emulator.faults, method, path, text)
  if (fault === null) return reply(sms_request, await perform())
  if (log) log.fault = fault.id
  const refusals = {
    ...REFUSALS,
    refuse_400: () => refused(new SmsRefusal(400, Number(fault.code ?? 20001), 'The request was refused')),
  }
  await respondWithFault(emulator.faults, fault, {
    response: exchange.response,
    perform,
    reply: (answer, retry_after_s) => reply(sms_request, answer, retry_after_s),
    refusals,
  })
}

function isAuthenticated({ account_sid, auth_token }: TwilioEmulator, { request }: Exchange): boolean {
  const [scheme, credentials = ''] = header(request, 'authorization')?.split(' ') ?? []
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return (
    scheme?.toLowerCase() === 'basic' &&
    timingSafeEqual(
      digest(Buffer.from(credentials, 'base64').toString()),
      digest(`${account_sid}:${auth_token}`),
    )
  )
}

function respondTo(emulator: TwilioEmulator, exchange: Exchange): EmulatedResponse {
  const { account_sid, messages } = emulator
  const { method, path, query, body, response } = exchange
  const at = messagesPath(account_sid)
  try {
    if (path === `${at}.json` && method === 'POST') {
      const sms = createMessage(emulator, new URLSearchParams(body))
      if (sms.to === LOST_NUMBER) response.destroy()
      return { status: 201, body: JSON.stringify(renderSms(account_sid, sms)) }
    }
    if (path === `${at}.json` && method === 'GET')
      return { status: 200, body: JSON.stringify(listMessages(emulator, new URLSearchParams(query))) }
    const found = path.startsWith(`${at}/`)
      ? messages.get(path.slice(at.length + 1, -'.json'.length))
      : undefined
    if (found !== undefined && method === 'GET')
      return { status: 200, body: JSON.stringify(renderSms(account_sid, found)) }
    throw smsNotFound(path)
  } catch (error) {
    return refused(error)
  }
}

function reply(
  { exchange: { response }, request_id, log }: SmsRequest,
  { status, body }: EmulatedResponse,
  retry_after_s: number | null = null,
): void {
  if (response.destroyed) return
  if (log) {
    log.status = status
    if (status >= 400) log.refusal = (JSON.parse(body) as { message: string }).message
  }
  send(
    response,
    status,
    {
      'twilio-request-id': request_id,
      ...(retry_after_s !== null && { 'retry-after': String(retry_after_s) }),
    },
    body,
  )
}

function refused(error: unknown): EmulatedResponse {
  const answer = SMS_ERRORS.answerOf(error)
  if (answer === null) console.error(error)
  return answer ?? refused(twilioFailed())
}
