// A limit on the time that an answer may take.

export class LateError extends Error {
  override name = 'LateError'
}

/** How long what has already come may take to be read, where this process was too busy to do so. */
const grace_ms = 10

/** The promise, or a LateError after `limit_ms`. An answer that came in time counts, even if we were too busy to read it then. */
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
