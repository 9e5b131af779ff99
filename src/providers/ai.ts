// The AI provider: what is asked of it, and what comes back.
import type { Json } from '#core/db.ts'
import type { AiFailure, Outcome } from '#core/outcome.ts'

/** What a task is about. */
export type AiInput =
  | { kind: 'generate'; prompt: string; system: string | null }
  | { kind: 'classify'; text: string; labels: string[] }
  | { kind: 'extract'; text: string; schema: Record<string, unknown> }

export type AiCall = {
  /** Whose it is: what takes time here is done by turns of the tenants. */
  tenant_id: string
  input: AiInput
  /** Null: the configured one. */
  model: string | null
  max_output_tokens: number | null
}

export type AiAnswer = {
  outcome: Outcome<{ output: Json }, AiFailure>
  /** Which model answered; also of an answer that is no use, as is the usage. Null where none was told. */
  model: string | null
  usage: { input_tokens: number; output_tokens: number } | null
}

export type AiProvider = {
  name: string
  /**
   * Asks once. What it was asked and answered is in no message. When `signal` aborts, the connection is closed, the
   * answer is not checked any further, and the outcome is ambiguous.
   */
  complete(call: AiCall, key: string, signal: AbortSignal): Promise<AiAnswer>
}
