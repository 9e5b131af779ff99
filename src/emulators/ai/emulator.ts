// The state of the AI emulator and its record of completions.
import type { AppendFile } from '../shared/append-file.ts'
import { scriptFault, type Fault, type Faults } from '../shared/faults.ts'
import type { RequestLog } from '../shared/requests.ts'
import { AI_ERRORS } from './errors.ts'

/** The record of a completion, without the texts of request and answer. */
export type Completion = {
  /** Sequence number, from 1 without gaps. */
  seq: number
  /** Time of the real clock (ISO 8601). */
  at: string
  effect: 'completion'
  id: string
  model: string
  /** `text`, or the name of the requested schema. */
  format: string
  input_tokens: number
  output_tokens: number
  idempotency_key: string | null
}

export type AiEmulator = {
  url: string
  /** The API key; null: any key is accepted. */
  api_key: string | null
  faults: Faults
  requests: RequestLog
  /** The newest completions. */
  completions: Completion[]
  /** The file with all completions. */
  file: AppendFile | null
  /** Requests that have already got the 429 that `[[429]]` triggers. */
  limited: Set<string>
}

/** Maximum number of completions in memory. Older completions are only in the file. */
const MAX_COMPLETIONS = 1_000

/** Adds a completion and drops the oldest above MAX_COMPLETIONS. */
export function storeCompletion({ completions }: Pick<AiEmulator, 'completions'>, line: Completion): void {
  completions.push(line)
  if (completions.length > MAX_COMPLETIONS) completions.shift()
}

/** The number of all completions. */
export function completionCount({ completions }: Pick<AiEmulator, 'completions'>): number {
  return completions.at(-1)?.seq ?? 0
}

/** The requests to which the page can limit a fault: maps each label to the `match` of the fault's script. */
export const AI_FAULT_TARGETS: Record<string, object> = { 'any request': {} }

/** Adds a scripted fault. Throws AiRefusal if the script is invalid. */
export function addAiFault(faults: Faults, script: unknown): Fault {
  return scriptFault(faults, script, { id: `flt_${crypto.randomUUID()}`, refuse: AI_ERRORS.parameter })
}
