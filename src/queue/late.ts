// A limit on the time that an answer may take.

export class LateError extends Error {
  override name = 'LateError'
}

/**
 * The promise, or a LateError after `limit_ms`. Where this process was too busy to read an answer that had come in
 * time, it still counts: sockets are read once more before the limit holds.
 */
export function within<T>(promise: Promise<T>, limit_ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => setImmediate(() => reject(new LateError(`no answer in ${limit_ms} ms`))),
      limit_ms,
    )
    const answered = () => clearTimeout(timer)
    promise.then(resolve, reject).then(answered, answered)
  })
}
