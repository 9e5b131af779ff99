// The promise that every SDK method returns.

/** Resolves to the resource. */
export type Answer<T> = Promise<T> & {
  /** The resource with its HTTP response. `response.status` is 202 while the work is not finished. */
  withResponse(): Promise<Received<T>>
}
/** The parsed body, and the response that it came in. The response's body is already read. */
export type Received<T> = { data: T; response: Response }

/** Wraps a pending response as an `Answer`. */
export function answerOf<T>(received: Promise<Received<T>>): Answer<T> {
  const data = received.then((answer) => answer.data)
  const withResponse = () => {
    // A caller that awaits `withResponse()` does not handle a rejection of `data`.
    data.catch(() => {})
    return received
  }
  return Object.assign(data, { withResponse })
}
