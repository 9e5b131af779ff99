// The interface of the AI provider.
import type { Json } from '#core/db.ts'
import type { AiFailure, Outcome } from '#core/outcome.ts'

/** Input of a task. */
export type AiInput =
  | { kind: 'generate'; prompt: string; system: string | null }
  | { kind: 'classify'; text: string; labels: string[] }
  | { kind: 'extract'; text: string; schema: Record<string, unknown> }

export type AiCall = {
  /** The tenant of the task, for the fair share of tenants in the validation of answers. */
  tenant_id: string
  input: AiInput
  /** Null: the configured model. */
  model: string | null
  max_output_tokens: number | null
}

export type AiAnswer = {
  outcome: Outcome<{ output: Json }, AiFailure>
  /** The model that answered; null if not reported. Like `usage`, it is also set if the answer is not usable. */
  model: string | null
  usage: { input_tokens: number; output_tokens: number } | null
}

export type AiProvider = {
  name: string
  /**
   * Sends one request. Messages never contain the request or the answer. When `signal` aborts, the connection is
   * closed, the answer is not validated, and the outcome is ambiguous.
   */
  complete(call: AiCall, key: string, signal: AbortSignal): Promise<AiAnswer>
}
