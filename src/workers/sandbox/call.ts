// One call to a sandbox: it takes a limited time with its waits, and begins only while the permit of its job is valid.
import { NoAnswer } from '#providers/http.ts'
import { awaitPermit, currentPermit, NotStarted } from '#providers/permit.ts'

/**
 * `deadline_ms`: the limit of the call with its waits, or the permit's deadline if it is shorter. Default: 15,000.
 * `signal`: aborts when the answer is no longer needed.
 */
export type SandboxCallLimits = { deadline_ms?: number | undefined; signal?: AbortSignal | undefined }

export type SandboxCall = {
  /** Aborts when the caller does not wait any more: the deadline has passed, or the answer is no longer needed. */
  signal: AbortSignal
  /** Resolves if the call may begin. Rejects with NotStarted if not. */
  admit(): Promise<void>
  /** As `admit`, right before the work: from then on the call may have an effect. */
  begin(): Promise<void>
}

const DEADLINE_MS = 15_000

/**
 * Performs a call. If its limits end it, rejects at once: with NotStarted if it had not begun, and then it does not
 * begin; otherwise with NoAnswer.
 */
export async function withinLimits<T>(
  { deadline_ms = DEADLINE_MS, signal }: SandboxCallLimits,
  work: (call: SandboxCall) => Promise<T>,
): Promise<T> {
  const permit = currentPermit()
  const limit_ms = Math.min(deadline_ms, permit.deadline_ms ?? deadline_ms)
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), limit_ms)
  const stops = AbortSignal.any([deadline.signal, permit.signal, ...(signal === undefined ? [] : [signal])])
  const ended = Promise.withResolvers<never>()
  let has_begun = false

  function onAbort(): void {
    const late = deadline.signal.aborted
    if (!has_begun)
      return ended.reject(late ? new NotStarted('the sandbox was in use for too long') : new NotStarted())
    const reason = late ? `no answer within ${limit_ms} ms` : 'the call was aborted before its answer arrived'
    ended.reject(new NoAnswer(reason, { sent: true, late }))
  }

  async function admit(): Promise<void> {
    if (!stops.aborted) await awaitPermit(permit)
    if (stops.aborted) throw new NotStarted()
  }

  async function begin(): Promise<void> {
    if (has_begun) return
    await admit()
    has_begun = true
    permit.used()
  }

  stops.addEventListener('abort', onAbort)
  if (stops.aborted) onAbort()
  try {
    return await Promise.race([work({ signal: stops, admit, begin }), ended.promise])
  } finally {
    clearTimeout(timer)
    stops.removeEventListener('abort', onAbort)
  }
}
