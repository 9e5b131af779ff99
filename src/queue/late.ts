// Limits how long an answer may take.

export class LateError extends Error {
  override name = 'LateError'
}

/** Extra time to read an answer that has already arrived while this process was busy. */
const grace_ms = 10

/**
 * Resolves or rejects like `promise`, or rejects with LateError after `limit_ms`. An answer that arrived in time
 * counts.
 */
export function within<T>(promise: Promise<T>, limit_ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new LateError(`no answer in ${limit_ms} ms`))
    let timer = setTimeout(() => {
      timer = setTimeout(late, grace_ms)
    }, limit_ms - grace_ms)
    const answered = () => clearTimeout(timer)
    promise.then(resolve, reject).then(answered, answered)
  })
}
