// Validates data against a JSON Schema of a tenant, in a thread of its own: neither a pattern that backtracks for ever nor a
// schema that grows as it is followed can hold up this process, because the thread is ended when its time or memory is used up.
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { createFairGate } from '#core/gate.ts'
import { NotStarted } from '../permit.ts'
import { limitWork, type ThreadBegan } from '#core/thread-work.ts'
import { createUsedUp } from '#core/used-up.ts'

/** Two at once, so that hostile schemas cannot take every processor. Those that wait are the jobs of this worker. */
const LIMITS_OF_ALL = {
  running: 2,
  queue: {
    waiting: 5_000,
    wait_ms: 10 * 60_000,
    refuse: () => new NotStarted('too many answers wait to be checked'),
  },
}
/** Of a processor, for compiling the schema and validating with it. */
const LIMIT_MS = 1_000
/** For a thread to begin; on a busy machine that can take long, and is no fault of the schema. */
const BEGIN_MS = 15_000
const LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('./validation-thread.ts', import.meta.url)
const UNCHECKED = 'It takes too much work to check the answer against the schema.'

/** What the thread is given, as JSON, and what it tells. */
export type ThreadGiven = { schema: string; data: string }
export type ThreadTold = ThreadBegan | { wrong: string | null }

/** `used_up`: its time or memory. `starved`: the machine gave it no time. */
type Checked = Exclude<ThreadTold, ThreadBegan> | 'used_up' | 'starved'

const gate = createFairGate(LIMITS_OF_ALL)
/** The hashes of schemas that used up their time or memory. */
const used_up = createUsedUp()

/**
 * Why the data does not validate against the schema, without a word of either; null if it does. Rejects with the reason
 * of `signal` when that aborts.
 */
export async function whyInvalid(
  tenant_id: string,
  { schema, data }: { schema: object; data: unknown },
  signal: AbortSignal,
): Promise<string | null> {
  const given: ThreadGiven = { schema: JSON.stringify(schema), data: JSON.stringify(data) }
  const hash = createHash('sha256').update(given.schema).digest('base64')
  return await gate(tenant_id, signal, async () => {
    if (used_up.has(tenant_id, hash)) return UNCHECKED
    const told = await ask(given, signal)
    if (told === 'used_up') used_up.add(tenant_id, hash)
    return typeof told === 'string' ? UNCHECKED : told.wrong
  })
}

async function ask(given: ThreadGiven, signal: AbortSignal): Promise<Checked> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<Checked>()
  const giveUp = () => reject(signal.reason)
  signal.addEventListener('abort', giveUp)
  const thread = new Worker(THREAD, { workerData: given, env: {}, execArgv: [], resourceLimits: LIMITS })
  const begin = setTimeout(() => resolve('starved'), BEGIN_MS)
  let stop = () => clearTimeout(begin)
  thread.on('message', (told: ThreadTold) => {
    stop()
    if ('wrong' in told) resolve(told)
    else stop = limitWork(thread, told, LIMIT_MS, resolve)
  })
  // It used up its memory, or its stack.
  thread.on('error', () => resolve('used_up'))
  thread.on('exit', () => resolve('used_up'))
  try {
    return await promise
  } finally {
    stop()
    signal.removeEventListener('abort', giveUp)
    await thread.terminate()
  }
}
