// The controls under `/_emulator/`: faults, messages and their statuses, callbacks, inbound messages, and the record.
import { answerControls, faultControls, textOf, type Control } from '../shared/controls.ts'
import { faultButtons, buttonControl } from '../shared/fault-page.ts'
import type { Exchange } from '../shared/http.ts'
import {
  addSmsFault,
  newestMessages,
  SMS_FAULT_TARGETS,
  type SentSmsStatus,
  type TwilioEmulator,
} from './emulator.ts'
import { smsNotFound, SMS_ERRORS } from './errors.ts'
import { receiveSms } from './inbound.ts'
import { setSmsStatus } from './progress.ts'

const SETTLED: readonly SentSmsStatus[] = [
  'sending',
  'sent',
  'delivered',
  'undelivered',
  'failed',
  'canceled',
  'read',
]

const CONTROLS = new Map<string, Control<TwilioEmulator>>([
  ...faultControls(addSmsFault, SMS_ERRORS),
  ['GET effects', showEffects],
  ['GET messages', showMessages],
  ['POST messages/:id/settle', settleMessage],
  ['POST inbound', (emulator, _id, body) => receive(emulator, body)],
  ['GET callbacks', ({ callbacks }) => ({ ...callbacks.settings, ...callbacks.counts })],
  ['POST callbacks', changeCallbacks],
  [
    'POST page/:id',
    buttonControl(
      {
        ...faultButtons(addSmsFault, SMS_FAULT_TARGETS),
        inbound: (emulator: TwilioEmulator, _fields, body) => receive(emulator, body),
      },
      SMS_ERRORS,
    ),
  ],
])

/** Handles requests under `/_emulator/`. */
export async function answerTwilioControl(emulator: TwilioEmulator, exchange: Exchange): Promise<void> {
  const parseForm = (text: string) => Object.fromEntries(new URLSearchParams(text))
  await answerControls(emulator, exchange, { controls: CONTROLS, parseForm, errors: SMS_ERRORS })
}

async function showEffects(
  { effects, file }: TwilioEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): Promise<unknown> {
  await file?.flush()
  const { after_seq, sid } = query
  const metadata = Object.entries(query).flatMap(([name, value]) => {
    const key = /^metadata\[(\w+)\]$/.exec(name)?.[1]
    return key === undefined ? [] : [[key, value] as const]
  })
  const data = effects.filter(
    (line) =>
      line.seq > Number(after_seq ?? 0) &&
      (sid === undefined || line.sid === sid) &&
      metadata.every(([key, value]) => line.metadata[key] === value),
  )
  return { data, count: data.length }
}

function showMessages(
  emulator: TwilioEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): unknown {
  // An unescaped plus arrives as a space.
  const to = textOf(query, 'to')?.replace(/^ /, '+')
  return newestMessages(emulator, to).map(
    ({ sid, to, from, messaging_service_sid, body, status, created_ms }) => ({
      sid,
      to,
      from: from ?? messaging_service_sid,
      body,
      status,
      created_at: new Date(created_ms).toISOString(),
    }),
  )
}

/**
 * Sets the status of a message to any status of `SETTLED`, whatever its current status is. The body is
 * `{ status, error_code? }`. Answers after the status callback was posted, dropped or postponed.
 */
async function settleMessage(
  emulator: TwilioEmulator,
  sid: string,
  body: Record<string, unknown>,
): Promise<unknown> {
  const sms = emulator.messages.get(sid)
  if (sms === undefined) throw smsNotFound(sid)
  const status = SETTLED.find((each) => each === body['status'])
  if (status === undefined) throw SMS_ERRORS.parameter(`must be one of ${SETTLED.join(', ')}`, 'status')
  const { error_code } = body
  await setSmsStatus(emulator, sms, status, error_code === undefined ? null : Number(error_code))
  return { sid, status }
}

async function receive(emulator: TwilioEmulator, body: Record<string, unknown>): Promise<unknown> {
  return await receiveSms(emulator, {
    from: textOf(body, 'from') ?? '',
    to: textOf(body, 'to') ?? '',
    body: textOf(body, 'body') ?? '',
    opt_out_type: textOf(body, 'opt_out_type'),
    messaging_service_sid: textOf(body, 'messaging_service_sid'),
  })
}

/** Changes the settings of callbacks. The body has any of the settings. */
function changeCallbacks({ callbacks }: TwilioEmulator, _id: string, body: Record<string, unknown>): unknown {
  for (const [name, value] of Object.entries(body)) {
    const current = Object.hasOwn(callbacks.settings, name)
      ? callbacks.settings[name as keyof typeof callbacks.settings]
      : undefined
    if (typeof value !== typeof current)
      throw SMS_ERRORS.parameter('is not a setting, or has an invalid value', name)
  }
  Object.assign(callbacks.settings, body)
  callbacks.resume()
  return { ...callbacks.settings, ...callbacks.counts }
}
