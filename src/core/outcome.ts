// What an attempt at a piece of work can come to: values, not exceptions.

/** Why the work definitively did not happen; `code` is a row of the error catalogue. */
export type Failure = {
  code: 'payment_declined' | 'payment_invalid' | 'processor_error'
  message: string
  /** The processor's own word for it, e.g. `insufficient_funds`. */
  processor_code?: string
  decline_code?: string
}

export type Outcome<T> =
  /** It happened. */
  | { kind: 'done'; value: T }
  /** It definitively did not happen and will not under this key. `reference`: what the processor calls the try, if anything. */
  | { kind: 'declined'; failure: Failure; reference?: string }
  /** It certainly has not happened yet; the same key may try again. */
  | { kind: 'retry'; reason: string; after_ms?: number }
  /** Nobody knows. `replayed`: the processor repeated a stored answer, so asking again under this key tells nothing new. */
  | { kind: 'ambiguous'; reason: string; replayed: boolean }
  /** Our credentials or set-up were refused; nothing happened. */
  | { kind: 'misconfigured'; reason: string }

/** All but `done`. */
export type Undone = Exclude<Outcome<unknown>, { kind: 'done' }>
