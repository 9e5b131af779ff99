// The outcomes of a provider call: values, not exceptions.

/** Why something definitively did not happen. `code` is in the error catalogue. */
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
  /**
   * It definitively did not happen and will not under this key. `reference`: the processor's id of the failed object,
   * if it made one.
   */
  | { kind: 'declined'; failure: Failure; reference?: string }
  /** It certainly has not happened yet; it may be tried again with the same key. */
  | { kind: 'retry'; reason: string; after_ms?: number }
  /**
   * Not known. `replayed`: the processor repeated a stored answer, so sending again with this key tells nothing new.
   */
  | { kind: 'ambiguous'; reason: string; replayed: boolean }
  /** Our credentials or set-up were refused; nothing happened. */
  | { kind: 'misconfigured'; reason: string }

/** All but `done`. */
export type Undone = Exclude<Outcome<unknown>, { kind: 'done' }>
