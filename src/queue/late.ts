// Time limits for answers of the backend.

export class QueueTimeoutError extends Error {
  override name = 'QueueTimeoutError'
}

/** Extra time to read an answer that arrived while this process was busy. */
const grace_ms = 10

/**
 * Resolves or rejects like `promise`, or rejects with QueueTimeoutError after `limit_ms`. An answer that arrived in
 * time counts.
 */
export function withTimeout<T>(promise: Promise<T>, limit_ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timeOut = () => reject(new QueueTimeoutError(`no answer in ${limit_ms} ms`))
    let timer = setTimeout(() => {
      timer = setTimeout(timeOut, grace_ms)
    }, limit_ms - grace_ms)
    const answered = () => clearTimeout(timer)
    promise.then(resolve, reject).then(answered, answered)
  })
}
