// The controls under `/_emulator/`: list and empty the inbox, set faults, and read the record of all accepted emails.
import { answerControls, faultControls, textOf, type Control } from '../shared/controls.ts'
import { buttonFields, faultButtons, problemPage, type ButtonFields } from '../shared/fault-page.ts'
import { sendPage } from '../shared/html.ts'
import { send, type Exchange } from '../shared/http.ts'
import {
  addSmtpFault,
  latestMessages,
  readMessage,
  SMTP_FAULT_TARGETS,
  type InboxMessage,
  type SmtpEmulator,
} from './emulator.ts'
import { InboxRefusal, INBOX_ERRORS } from './errors.ts'

const BUTTONS: Record<string, (emulator: SmtpEmulator, fields: ButtonFields) => unknown> = {
  ...faultButtons(addSmtpFault, SMTP_FAULT_TARGETS),
  empty: emptyInbox,
}

const CONTROLS = new Map<string, Control<SmtpEmulator>>([
  ...faultControls(addSmtpFault, INBOX_ERRORS),
  ['GET effects', showEffects],
  ['GET messages', showMessages],
  ['DELETE messages', (emulator) => (emptyInbox(emulator), [])],
  ['POST page/:id', pressButton],
])

/** Handles requests under `/_emulator/`. */
export async function answerInboxControl(emulator: SmtpEmulator, exchange: Exchange): Promise<void> {
  const parseForm = (text: string) => Object.fromEntries(new URLSearchParams(text))
  await answerControls(emulator, exchange, { controls: CONTROLS, parseForm, errors: INBOX_ERRORS })
}

function showMessages(
  emulator: SmtpEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): unknown {
  return latestMessages(emulator, textOf(query, 'to')).map((message) => messageView(emulator, message))
}

function messageView(emulator: SmtpEmulator, message: InboxMessage): unknown {
  const { id, sender, to, raw, received_at } = message
  const { headers, text, html } = readMessage(emulator, message)
  const { from = sender, subject = '' } = headers
  return { id, from, to, subject, headers, text, html, raw: raw.toString('utf8'), received_at }
}

async function showEffects(
  { effects, file }: SmtpEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): Promise<unknown> {
  await file?.flush()
  const message_id = textOf(query, 'message_id')
  const after_seq = Number(textOf(query, 'after_seq') ?? 0)
  const metadata = Object.entries(query).flatMap(([name, value]) => {
    const key = /^metadata\[(\w+)\]$/.exec(name)?.[1]
    return key === undefined ? [] : [[key, value] as const]
  })
  const data = effects.filter(
    (line) =>
      line.seq > after_seq &&
      (message_id === undefined || line.message_id === message_id) &&
      metadata.every(([key, value]) => line.metadata[key] === value),
  )
  return { data, count: data.length }
}

function emptyInbox(emulator: SmtpEmulator): void {
  emulator.messages.length = 0
  emulator.bytes = 0
}

function pressButton(
  emulator: SmtpEmulator,
  name: string,
  body: Record<string, unknown>,
  _query: unknown,
  { response }: Exchange,
): null {
  try {
    const button = Object.hasOwn(BUTTONS, name) ? BUTTONS[name] : undefined
    if (button === undefined) throw new InboxRefusal(400, `There is no button "${name}".`)
    button(emulator, buttonFields(body))
    send(response, 303, { location: '/' }, '')
  } catch (error) {
    if (!(error instanceof InboxRefusal)) throw error
    sendPage(response, error.status, problemPage(error.message))
  }
  return null
}
