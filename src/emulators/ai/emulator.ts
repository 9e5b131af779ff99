// What every operation of the AI emulator gets first: its state and its record.
import type { AppendFile } from '../shared/append-file.ts'
import { scriptFault, type Fault, type Faults } from '../shared/faults.ts'
import type { RequestLog } from '../shared/requests.ts'
import { AI_ERRORS } from './errors.ts'

/** A completion that was made; neither what was asked nor what was answered is in it. */
export type Completion = {
  /** From 1, without gaps. */
  seq: number
  /** ISO 8601, of the real clock. */
  at: string
  effect: 'completion'
  id: string
  model: string
  /** `text`, or the name of the schema that the answer was to follow. */
  format: string
  input_tokens: number
  output_tokens: number
  idempotency_key: string | null
}

export type AiEmulator = {
  url: string
  /** Null: any key will do. */
  api_key: string | null
  faults: Faults
  requests: RequestLog
  /** The latest. */
  completions: Completion[]
  /** Holds all. */
  file: AppendFile | null
  /** What has met its 429 already. */
  limited: Set<string>
}

/** Of older completions only the file knows, as of older requests nobody does. */
const MAX_COMPLETIONS = 1_000

export function storeCompletion({ completions }: Pick<AiEmulator, 'completions'>, line: Completion): void {
  completions.push(line)
  if (completions.length > MAX_COMPLETIONS) completions.shift()
}

/** How many completions were made. */
export function completionCount({ completions }: Pick<AiEmulator, 'completions'>): number {
  return completions.at(-1)?.seq ?? 0
}

/** What a fault of the page meets, in words. */
export const AI_FAULT_TARGETS: Record<string, object> = { 'any request': {} }

export function addAiFault(faults: Faults, script: unknown): Fault {
  return scriptFault(faults, script, { id: `flt_${crypto.randomUUID()}`, refuse: AI_ERRORS.parameter })
}
