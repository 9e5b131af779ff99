// Validates data against a JSON Schema of a tenant, in a thread of its own: neither a pattern that backtracks for ever nor a
// schema that grows as it is followed can hold up this process, because the thread is ended when its time or memory is used up.
import { Worker } from 'node:worker_threads'
import { createGate } from '#core/gate.ts'

/** Two at once, so that hostile schemas cannot take every processor. */
const AT_ONCE = 2
/** For compiling the schema and validating with it. */
const LIMIT_MS = 1_000
/** For a thread to begin; on a busy machine that can take long, and is no fault of the schema. */
const BEGIN_MS = 15_000
const LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('./validation-thread.ts', import.meta.url)
const UNCHECKED = `The answer could not be checked against the schema within ${LIMIT_MS / 1000} s.`

/** What the thread is given, as JSON, and what it tells. */
export type ThreadGiven = { schema: string; data: string }
export type ThreadTold = 'ready' | { wrong: string | null }

const gate = createGate({ running: AT_ONCE })

/** Null if the schema takes the data; else why not, without a word of either. */
export async function validates(schema: object, data: unknown): Promise<string | null> {
  const given: ThreadGiven = { schema: JSON.stringify(schema), data: JSON.stringify(data) }
  return await gate(() => ask(given))
}

async function ask(given: ThreadGiven): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const thread = new Worker(THREAD, { workerData: given, env: {}, execArgv: [], resourceLimits: LIMITS })
  let limit = setTimeout(() => resolve(UNCHECKED), BEGIN_MS)
  thread.on('message', (told: ThreadTold) => {
    clearTimeout(limit)
    if (told === 'ready') limit = setTimeout(() => resolve(UNCHECKED), LIMIT_MS)
    else resolve(told.wrong)
  })
  // It used up its memory, or its stack.
  thread.on('error', () => resolve(UNCHECKED))
  thread.on('exit', () => resolve(UNCHECKED))
  try {
    return await promise
  } finally {
    clearTimeout(limit)
    await thread.terminate()
  }
}
