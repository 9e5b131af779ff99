// What only an emulator has: faults and its own record, under `/_emulator/`.
import { answerControls, faultControls, textOf, type Control } from '../shared/controls.ts'
import { buttonFields, faultButtons, problemPage } from '../shared/fault-page.ts'
import { sendPage } from '../shared/html.ts'
import { send, type Exchange } from '../shared/http.ts'
import { addAiFault, AI_PLACES, type AiEmulator } from './emulator.ts'
import { AiRefusal, REFUSING } from './errors.ts'

const BUTTONS = faultButtons(addAiFault, AI_PLACES)

const CONTROLS = new Map<string, Control<AiEmulator>>([
  ...faultControls(addAiFault, REFUSING),
  ['GET effects', showEffects],
  ['POST page/:id', pressButton],
])

/** Answers everything under `/_emulator/`. */
export async function answerAiControl(emulator: AiEmulator, exchange: Exchange): Promise<void> {
  const parseForm = (text: string) => Object.fromEntries(new URLSearchParams(text))
  await answerControls(emulator, exchange, { controls: CONTROLS, parseForm, refusing: REFUSING })
}

async function showEffects(
  { completions, file }: AiEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): Promise<unknown> {
  await file?.flush()
  const { after_seq } = query
  const wanted = {
    model: textOf(query, 'model'),
    format: textOf(query, 'format'),
    idempotency_key: textOf(query, 'idempotency_key'),
  }
  const data = completions.filter(
    (line) =>
      line.seq > Number(after_seq ?? 0) &&
      Object.entries(wanted).every(
        ([name, value]) => value === undefined || line[name as keyof typeof wanted] === value,
      ),
  )
  return { data, count: data.length }
}

function pressButton(
  emulator: AiEmulator,
  name: string,
  body: Record<string, unknown>,
  _query: unknown,
  { response }: Exchange,
): null {
  try {
    const button = Object.hasOwn(BUTTONS, name) ? BUTTONS[name] : undefined
    if (button === undefined) throw new AiRefusal(400, `There is no button "${name}".`)
    button(emulator, buttonFields(body))
    send(response, 303, { location: '/' }, '')
  } catch (error) {
    if (!(error instanceof AiRefusal)) throw error
    sendPage(response, error.status, problemPage(error.message))
  }
  return null
}
