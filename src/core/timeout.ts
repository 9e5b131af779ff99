// Time limits for answers of servers.

export class AnswerTimeoutError extends Error {
  override name = 'AnswerTimeoutError'
}

/** Extra time to read an answer that arrived while this process was busy. */
const grace_ms = 10

/**
 * Resolves or rejects like `promise`, or rejects with AnswerTimeoutError after `limit_ms`. An answer that arrived in
 * time counts even if this process was too busy to read it.
 */
export function withTimeout<T>(promise: Promise<T>, limit_ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timeOut = () => reject(new AnswerTimeoutError(`no answer in ${limit_ms} ms`))
    let timer = setTimeout(() => {
      timer = setTimeout(timeOut, grace_ms)
    }, limit_ms - grace_ms)
    const answered = () => clearTimeout(timer)
    promise.then(resolve, reject).then(answered, answered)
  })
}
