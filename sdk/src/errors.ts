// What goes wrong, as errors that are told apart by their code.
import type { ErrorContexts } from './error-contexts.ts'
import type { ErrorCode, ErrorDetail } from './generated/schemas.ts'

/** Codes of this package, for what the API has not said. */
type ClientErrorCode = 'connection_failed' | 'timed_out' | 'unreadable_answer' | 'invalid_signature'
/** Every code of an error. There can be new ones at any time: go by the `status` of one that you do not know. */
export type SluiceErrorCode = ErrorCode | ClientErrorCode
/** The facts of a code. */
export type ContextOf<Code extends SluiceErrorCode> = Code extends keyof ErrorContexts
  ? ErrorContexts[Code]
  : Readonly<Record<string, unknown>>

export type ErrorFacts<Code extends SluiceErrorCode> = {
  code: Code
  message: string
  status?: number | null
  request_id?: string | null
  param?: string | null
  details?: readonly ErrorDetail[]
  context?: Readonly<Record<string, unknown>>
  retry_after_s?: number | null
  maybe_done?: boolean
  doc_url?: string | null
  cause?: unknown
}

/** An error of this code. Catch {@link SluiceError}, which is one of these for each code. */
export class SluiceErrorOf<Code extends SluiceErrorCode = SluiceErrorCode> extends Error {
  override name = 'SluiceError'
  /** What went wrong, for programs. */
  readonly code: Code
  /** What went wrong, for people; `message` adds code, status and request id. */
  readonly text: string
  /** The HTTP status; `null` where there was no answer. */
  readonly status: number | null
  /** Name it when you ask for help. `null` of what never was a request: a webhook that is not genuine. */
  readonly request_id: string | null
  /** The field, parameter or header at fault, where there is one. */
  readonly param: string | null
  /** Every field at fault, where there may be several. */
  readonly details: readonly ErrorDetail[]
  /** Facts of this code, such as `decline_code` of `payment_declined`. */
  readonly context: ContextOf<Code>
  /** How many seconds the API asks to wait, where it does. */
  readonly retry_after_s: number | null
  /** An attempt has got no answer of the API, this one or one before it: what was asked may have been done. */
  readonly maybe_done: boolean
  /** What to do about this code. */
  readonly doc_url: string | null

  constructor(facts: ErrorFacts<Code>) {
    const { code, message, status = null, request_id = null, cause } = facts
    const suffix = [code, status, request_id && `request ${request_id}`].filter(Boolean).join(', ')
    super(`${message} (${suffix})`, cause === undefined ? undefined : { cause })
    this.code = code
    this.text = message
    this.status = status
    this.request_id = request_id
    this.param = facts.param ?? null
    this.details = facts.details ?? []
    this.context = (facts.context ?? {}) as ContextOf<Code>
    this.retry_after_s = facts.retry_after_s ?? null
    this.maybe_done = facts.maybe_done ?? false
    this.doc_url = facts.doc_url ?? null
  }
}

/**
 * Anything that this package throws, except that a request which you abort throws the reason of your signal. A comparison
 * of `code` narrows `context`:
 *
 *     if (error instanceof SluiceError && error.code === 'insufficient_balance')
 *       console.log(error.context.available_minor)
 */
export type SluiceError = { [Code in SluiceErrorCode]: SluiceErrorOf<Code> }[SluiceErrorCode]
export const SluiceError = SluiceErrorOf as {
  new (facts: never): SluiceError
  readonly prototype: SluiceError
}

/** No answer came: the connection could not be made, or broke off. What was asked may have been done all the same. */
export class SluiceConnectionError extends SluiceErrorOf<'connection_failed'> {
  override name = 'SluiceConnectionError'
}

/** No answer came within `timeout_ms`. What was asked may have been done all the same. */
export class SluiceTimeoutError extends SluiceErrorOf<'timed_out'> {
  override name = 'SluiceTimeoutError'
}

/** A webhook that is not genuine, too old, or that no secret was given for. */
export class SluiceSignatureError extends SluiceErrorOf<'invalid_signature'> {
  override name = 'SluiceSignatureError'
}
