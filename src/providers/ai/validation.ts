// Validates data against a JSON Schema of a tenant, in a thread of its own: neither a pattern that backtracks for ever nor a
// schema that grows as it is followed can hold up this process, because the thread is ended when its time or memory is used up.
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { createFairGate } from '#core/gate.ts'
import { NotStarted } from '../permit.ts'
import { limitCpuTime, type ThreadStart } from '#core/thread-work.ts'
import { createExhaustedList } from '#core/used-up.ts'

/** Two at once, so that hostile schemas cannot take every processor. Those that wait are the jobs of this worker. */
const GATE_OPTIONS = {
  running: 2,
  queue: {
    waiting: 5_000,
    wait_ms: 10 * 60_000,
    refuse: () => new NotStarted('too many answers wait to be checked'),
  },
}
/** Of a processor, for compiling the schema and validating with it. */
const CPU_LIMIT_MS = 1_000
/** For a thread to begin; on a busy machine that can take long, and is no fault of the schema. */
const START_TIMEOUT_MS = 15_000
const THREAD_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('./validation-thread.ts', import.meta.url)
const TOO_EXPENSIVE = 'It takes too much work to check the answer against the schema.'

/** What the thread is given, as JSON, and what it tells. */
export type ValidationInput = { schema: string; data: string }
export type ValidationMessage = ThreadStart | { violation: string | null }

/** `used_up`: its time or memory. `starved`: the machine gave it no time. */
type ValidationResult = Exclude<ValidationMessage, ThreadStart> | 'used_up' | 'starved'

const gate = createFairGate(GATE_OPTIONS)
/** The hashes of schemas that used up their time or memory. */
const used_up = createExhaustedList()

/**
 * Why the data does not validate against the schema, without a word of either; null if it does. Rejects with the reason
 * of `signal` when that aborts.
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
  // It used up its memory, or its stack.
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
