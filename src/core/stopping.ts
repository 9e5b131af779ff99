// Whether this process has received the signal to stop.

let is_stopping = false

/** Marks this process as stopping: `/readyz` answers 503, and each answer closes its connection. */
export function markStopping(): void {
  is_stopping = true
}

export function isStopping(): boolean {
  return is_stopping
}
