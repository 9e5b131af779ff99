// The controls under `/_emulator/`: faults and the record of completions.
import { answerControls, faultControls, textOf, type Control } from '../shared/controls.ts'
import { faultButtons, buttonControl } from '../shared/fault-page.ts'
import type { Exchange } from '../shared/http.ts'
import { addAiFault, AI_FAULT_TARGETS, type AiEmulator } from './emulator.ts'
import { AI_ERRORS } from './errors.ts'

const CONTROLS = new Map<string, Control<AiEmulator>>([
  ...faultControls(addAiFault, AI_ERRORS),
  ['GET effects', showEffects],
  ['POST page/:id', buttonControl(faultButtons(addAiFault, AI_FAULT_TARGETS), AI_ERRORS)],
])

/** Handles requests under `/_emulator/`. */
export async function answerAiControl(emulator: AiEmulator, exchange: Exchange): Promise<void> {
  const parseForm = (text: string) => Object.fromEntries(new URLSearchParams(text))
  await answerControls(emulator, exchange, { controls: CONTROLS, parseForm, errors: AI_ERRORS })
}

async function showEffects(
  { completions, file }: AiEmulator,
  _id: string,
  _body: unknown,
  query: Record<string, unknown>,
): Promise<unknown> {
  await file?.flush()
  const { after_seq } = query
  const filters = {
    model: textOf(query, 'model'),
    format: textOf(query, 'format'),
    idempotency_key: textOf(query, 'idempotency_key'),
  }
  const data = completions.filter(
    (line) =>
      line.seq > Number(after_seq ?? 0) &&
      Object.entries(filters).every(
        ([name, value]) => value === undefined || line[name as keyof typeof filters] === value,
      ),
  )
  return { data, count: data.length }
}
