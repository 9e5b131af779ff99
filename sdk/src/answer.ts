// What a request resolves to.

/** Resolves to the resource. */
export type Answer<T> = Promise<T> & {
  /** The resource with the answer that it came in: `response.status` is 202 where the work is not finished yet. */
  withResponse(): Promise<Received<T>>
}
/** What came, with the head of its answer; the body has been read. */
export type Received<T> = { data: T; response: Response }

/** What was received, as what it resolves to. */
export function answerOf<T>(received: Promise<Received<T>>): Answer<T> {
  const data = received.then((answer) => answer.data)
  const withResponse = () => {
    // Who waits for one of the two need not handle a failure of the other.
    data.catch(() => {})
    return received
  }
  return Object.assign(data, { withResponse })
}
