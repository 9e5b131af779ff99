// Validates data against a tenant's JSON Schema in a worker thread with limits of time and memory: neither a
// backtracking pattern nor a schema that expands exponentially can block this process.
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { createFairGate } from '#core/gate.ts'
import { ROOT } from '#core/root.ts'
import { NotStarted } from '../permit.ts'
import { limitCpuTime, type ThreadStart } from '#core/thread-work.ts'
import { createExhaustedList } from '#core/used-up.ts'

/**
 * At most two threads at a time, so that hostile schemas cannot occupy every processor. Further validations of this
 * worker wait.
 */
const GATE_OPTIONS = {
  running: 2,
  queue: {
    waiting: 5_000,
    wait_ms: 10 * 60_000,
    refuse: () => new NotStarted('too many answers wait for validation'),
  },
}
/** The CPU time for compiling the schema and validating. */
const CPU_LIMIT_MS = 1_000
/**
 * The time in which a thread must start. A thread may start slowly on a busy machine, which is not the fault of the
 * schema.
 */
const START_TIMEOUT_MS = 15_000
const THREAD_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('src/providers/ai/validation-thread.ts', ROOT)
const TOO_EXPENSIVE = 'It takes too much work to check the answer against the schema.'

/** Input of the thread, as JSON texts. */
export type ValidationInput = { schema: string; data: string }
export type ValidationMessage = ThreadStart | { violation: string | null }

/** `used_up`: the time or memory of the thread is used up. `starved`: the thread did not start in time. */
type ValidationResult = Exclude<ValidationMessage, ThreadStart> | 'used_up' | 'starved'

const gate = createFairGate(GATE_OPTIONS)
/** Hashes of schemas that used up their time or memory. */
const used_up = createExhaustedList()

/**
 * A message that says why the data does not validate against the schema, without content of either; null if the data
 * validates. Rejects with the reason of `signal` if the signal aborts, and with `NotStarted` if too many validations
 * wait.
 */
export async function findSchemaViolation(
  tenant_id: string,
  { schema, data }: { schema: object; data: unknown },
  signal: AbortSignal,
): Promise<string | null> {
  const input: ValidationInput = { schema: JSON.stringify(schema), data: JSON.stringify(data) }
  const hash = createHash('sha256').update(input.schema).digest('base64')
  return await gate(tenant_id, signal, async () => {
    if (used_up.has(tenant_id, hash)) return TOO_EXPENSIVE
    const message = await validateInThread(input, signal)
    if (message === 'used_up') used_up.add(tenant_id, hash)
    return typeof message === 'string' ? TOO_EXPENSIVE : message.violation
  })
}

async function validateInThread(input: ValidationInput, signal: AbortSignal): Promise<ValidationResult> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<ValidationResult>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  const thread = new Worker(THREAD, {
    workerData: input,
    env: {},
    execArgv: [],
    resourceLimits: THREAD_LIMITS,
  })
  const start_timer = setTimeout(() => resolve('starved'), START_TIMEOUT_MS)
  let stop = () => clearTimeout(start_timer)
  thread.on('message', (message: ValidationMessage) => {
    stop()
    if ('violation' in message) resolve(message)
    else stop = limitCpuTime(thread, message, CPU_LIMIT_MS, resolve)
  })
  // The memory or the stack of the thread is used up.
  thread.on('error', () => resolve('used_up'))
  thread.on('exit', () => resolve('used_up'))
  try {
    return await promise
  } finally {
    stop()
    signal.removeEventListener('abort', onAbort)
    await thread.terminate()
  }
}
