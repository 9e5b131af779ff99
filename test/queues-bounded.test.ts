// Queues within a process are listed in the documentation, have limits, and drop waiters that are aborted.
import { glob, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createBatcher } from '#core/batch.ts'
import { createByteLimiters, createFairGate, createGate } from '#core/gate.ts'
import { emptyRequestLog, logRequest } from '#emulators/shared/requests.ts'
import { emptyIdempotency, storeAnswer } from '#providers/sandbox/stripe/idempotency.ts'

const ROOT = new URL('../', import.meta.url)
/** Calls that create a queue. */
const QUEUE_CREATION =
  /\b(?:createGates?|createByteLimiters|createFairGate|createSlots|createLineWriter|createSender<\w+>|createBodyReader|createSlowLane|createMemoryBudget)\(/
const QUEUE_DEFINITION =
  /\bfunction (?:createGates?|createByteLimiters|createFairGate|createSlowLane|createBodyReader|createMemoryBudget)\b/

test('the list of queues in the documentation names every file that creates a queue', async () => {
  const document = await readFile(new URL('docs/architecture.md', ROOT), 'utf8')
  const [, list = ''] = /\n## Queues\n([^]*?)\n## /.exec(document) ?? []
  const missing: string[] = []
  for await (const file of glob('src/**/*.ts', { cwd: ROOT.pathname })) {
    const text = await readFile(new URL(file, ROOT), 'utf8')
    const without_imports = text.replaceAll(/^import [^]*?from '.*'$/gm, '')
    if (
      QUEUE_CREATION.test(without_imports) &&
      !QUEUE_DEFINITION.test(without_imports) &&
      !list.includes(`\`${file}\``)
    )
      missing.push(file)
  }
  expect(missing).toEqual([])
  for (const [, file] of list.matchAll(/`(src\/[^`]+)`/g)) await readFile(new URL(file!, ROOT), 'utf8')
})

const refuse = () => new Error('full')
const never = () => new Promise<never>(() => {})

test('a gate refuses waiters above its limits of count, bytes and wait time, and drops aborted waiters', async () => {
  const gate = createGate({ running: 1, queue: { waiting: 2, bytes: 10, wait_ms: 1e8, refuse } })
  const first = Promise.withResolvers<void>()
  const running = gate(() => first.promise)
  const leaving = new AbortController()
  const aborted = gate(never, { signal: leaving.signal, bytes: 8 })
  await expect(gate(never, { bytes: 3 })).rejects.toThrow('full')
  const small = gate(async () => 'small', { bytes: 2 })
  await expect(gate(never)).rejects.toThrow('full')
  leaving.abort(new Error('has left'))
  await expect(aborted).rejects.toThrow('has left')
  const large = gate(async () => 'large', { bytes: 8 })
  first.resolve()
  expect(await Promise.all([small, large])).toEqual(['small', 'large'])
  await running
  const late = createGate({ running: 1, queue: { waiting: 1, wait_ms: 1, refuse } })
  void late(never)
  await expect(late(never)).rejects.toThrow('full')
})

test('a round-robin gate has limits', async () => {
  const gate = createFairGate({ running: 1, queue: { waiting: 1, wait_ms: 50, refuse } })
  const { signal } = new AbortController()
  void gate('a', signal, never)
  const waits = gate('a', signal, never)
  await expect(gate('b', signal, never)).rejects.toThrow('full')
  await expect(waits).rejects.toThrow('full')
})

test('a byte limiter grants its bytes in order, and refuses waiters above its limits of count and wait time', async () => {
  const acquire = createByteLimiters({ bytes: 10, queue: { waiting: 2, wait_ms: 1e8, refuse } })
  const { signal } = new AbortController()
  const first = await acquire('a', 8, signal)
  const leaving = new AbortController()
  const aborted = acquire('a', 8, leaving.signal)
  const next = acquire('a', 2, signal)
  await expect(acquire('a', 0, signal)).rejects.toThrow('full')
  expect(await acquire('b', 10, signal)).toBeDefined()
  leaving.abort(new Error('has left'))
  await expect(aborted).rejects.toThrow('has left')
  // The second request fits once the aborted waiter is dropped.
  const second = await next
  first.resize(20)
  second.release()
  const third = acquire('a', 1, signal)
  first.release()
  expect(await third).toBeDefined()
  const late = createByteLimiters({ bytes: 1, queue: { waiting: 1, wait_ms: 1, refuse } })
  await late('a', 1, signal)
  await expect(late('a', 1, signal)).rejects.toThrow('full')
})

test('a batcher refuses items above its limits, and the error names the limit', async () => {
  const send = createBatcher<string, string>('test_step', never, { size: ({ length }) => length })
  // Four batches run, each with a single item because of the item's size.
  const large = 'x'.repeat(1024 * 1024)
  for (let n = 0; n < 66; n++) void send(large).catch(() => {})
  await expect(send(large)).rejects.toMatchObject({
    code: 'overloaded',
    message: expect.stringContaining('test_step'),
  })
})

test('the request counts and idempotency keys of emulators have limits', () => {
  const log = emptyRequestLog(true)
  for (let n = 0; n < 2_000; n++)
    logRequest(log, { method: 'GET', path: `/none/${n}`, idempotency_key: null, request_id: `${n}` })
  expect([log.counts.size, log.counts.get('others')]).toEqual([1_001, 1_000])

  const day_ms = 24 * 60 * 60 * 1000
  const idempotency = emptyIdempotency()
  for (const [key, at_ms] of [
    ['a', 0],
    ['b', 1],
    ['a', day_ms],
    ['c', day_ms + 1],
  ] as const)
    storeAnswer(idempotency, key, { status: 200, content: '', fingerprint: '', request_id: '', at_ms })
  expect([...idempotency.answers.keys()]).toEqual(['a', 'c'])
})
