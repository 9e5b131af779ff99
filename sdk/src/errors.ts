// The errors that the SDK throws. `code` tells them apart.
import type { ErrorContexts } from './error-contexts.ts'
import type { ErrorCode, ErrorDetail } from './generated/schemas.ts'

/** Codes of errors that do not come from the API. */
type ClientErrorCode = 'connection_failed' | 'timed_out' | 'unreadable_answer' | 'invalid_signature'
/** All error codes. New codes can be added at any time: handle unrecognized codes by their `status`. */
export type SluiceErrorCode = ErrorCode | ClientErrorCode
/** The `context` of an error code. */
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

/** An error with the code `Code`. Catch {@link SluiceError}, the union of these errors over all codes. */
export class SluiceErrorOf<Code extends SluiceErrorCode = SluiceErrorCode> extends Error {
  override name = 'SluiceError'
  /** The error code. */
  readonly code: Code
  /** The API's message. `message` adds code, status and request id. */
  readonly text: string
  /** The HTTP status. Null: no response. */
  readonly status: number | null
  /** The request id. Include it in support requests. Null for an invalid webhook, which is not a request. */
  readonly request_id: string | null
  /** The invalid field, parameter or header, if there is one. */
  readonly param: string | null
  /** All invalid fields. */
  readonly details: readonly ErrorDetail[]
  /** Details of this code, such as `decline_code` of `payment_declined`. */
  readonly context: ContextOf<Code>
  /** How many seconds to wait before a retry, if the API says so. */
  readonly retry_after_s: number | null
  /** Whether the request may have taken effect: this attempt or an earlier one got no response from the API. */
  readonly maybe_done: boolean
  /** The page of the documentation about this code. */
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
 * All errors of this package. An aborted request throws the signal's reason instead. A comparison of `code` narrows
 * `context`:
 *
 *     if (error instanceof SluiceError && error.code === 'insufficient_balance')
 *       console.log(error.context.available_minor)
 */
export type SluiceError = { [Code in SluiceErrorCode]: SluiceErrorOf<Code> }[SluiceErrorCode]
export const SluiceError = SluiceErrorOf as {
  new (facts: never): SluiceError
  readonly prototype: SluiceError
}

/** The connection failed or was lost before a response. The request may have taken effect. */
export class SluiceConnectionError extends SluiceErrorOf<'connection_failed'> {
  override name = 'SluiceConnectionError'
}

/** No response within `timeout_ms`. The request may have taken effect. */
export class SluiceTimeoutError extends SluiceErrorOf<'timed_out'> {
  override name = 'SluiceTimeoutError'
}

/** The signature is invalid, the timestamp is too old, or the secret is missing. */
export class SluiceSignatureError extends SluiceErrorOf<'invalid_signature'> {
  override name = 'SluiceSignatureError'
}
