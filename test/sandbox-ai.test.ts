// The size of what the models of sandboxes and emulators answer, whatever a schema requests.
import { describe, expect, onTestFinished, test as anyTest, vi } from 'vitest'
import { NoAnswer } from '#providers/http.ts'
import { completionFor } from '#providers/sandbox/ai/completion.ts'
import { readAnswer } from '#workers/sandbox/answer.ts'
import { freshKey } from '#test/client.ts'
import { testIn } from '#test/world.ts'

const MAX_CONTENT_LENGTH = 256 * 1024
const LONG_STRING = { type: 'string', minLength: 2_000_000_000 }
const LONG_DEFAULT = { default: 'x'.repeat(15_000) }
const itemsOf = (items: object) => ({ type: 'array', minItems: 100, items })
const propertiesOf = (count: number, each: object) => ({
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`property_${index}`, each])),
})

const test = testIn()

const answerOf = (schema: object, max_tokens: number | null = null) =>
  completionFor({
    model: 'sandbox',
    text: 'Some text.',
    format: { name: 'extract', schema: { ...schema } },
    max_tokens,
    input_tokens: 3,
  })

describe('an answer that would be too long is cut off', () => {
  anyTest.for([
    ['a string', LONG_STRING],
    ['several strings', propertiesOf(3, { type: 'string', minLength: 200_000 })],
    ['a long default in nested arrays', itemsOf(itemsOf(LONG_DEFAULT))],
    ['a long name', itemsOf({ type: 'object', required: ['x'.repeat(15_000)] })],
    ['a long constant', itemsOf({ const: 'x'.repeat(15_000) })],
  ] as const)('of %s', ([, schema]) => {
    const { content, finish_reason, output_tokens } = answerOf(schema)
    expect([content!.length, finish_reason]).toEqual([MAX_CONTENT_LENGTH, 'length'])
    expect(output_tokens).toBe(MAX_CONTENT_LENGTH / 4)
  })

  anyTest('at the requested number of tokens, if that is less', () => {
    const { content, finish_reason } = answerOf(LONG_STRING, 10)
    expect([content, finish_reason]).toEqual([`"text${'.'.repeat(35)}`, 'length'])
  })
})

anyTest('an answer has a limited number of values', () => {
  const { content, finish_reason } = answerOf({
    $defs: { a: itemsOf({ $ref: '#/$defs/a' }) },
    $ref: '#/$defs/a',
  })
  expect(finish_reason).toBe('stop')
  expect(content!.match(/\[|null/g)!.length).toBeLessThanOrEqual(10_000)
})

anyTest('no more parts of a schema are read than an answer may have values', () => {
  let read = 0
  const parts = [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }, ...Array<boolean>(940).fill(true)]
  const counted = new Proxy(parts, {
    get(target, name) {
      if (/^\d+$/.test(String(name))) read += 1
      return Reflect.get(target, name) as unknown
    },
  })
  answerOf({ $defs: { a: { allOf: counted } }, $ref: '#/$defs/a' })
  expect(read).toBeLessThanOrEqual(10_000 + 24)
})

anyTest('a string is not generated beyond its maximum', () => {
  const short = { type: 'string', minLength: MAX_CONTENT_LENGTH, maxLength: 1 }
  const padded = vi.spyOn(String.prototype, 'padEnd')
  onTestFinished(() => padded.mockRestore())
  expect(answerOf(itemsOf(short)).finish_reason).toBe('stop')
  expect(Math.max(...padded.mock.calls.map(([length]) => length))).toBe(1)
})

anyTest('a long string that fits is complete', () => {
  const { content, finish_reason } = answerOf({ type: 'string', minLength: 5_000, maxLength: 6_000 })
  expect([JSON.parse(content!).length, finish_reason]).toEqual([5_000, 'stop'])
})

anyTest('the parts of a value are merged if they are objects', () => {
  const named = { type: 'object', properties: { name: { type: 'string' } } }
  for (const [parts, value] of [
    [[named, { required: ['name'] }], { name: 'text' }],
    [[{ type: 'string' }, { minLength: 2 }], 'text'],
  ] as const)
    expect(JSON.parse(answerOf({ allOf: parts }).content!)).toEqual(value)
})

test('a task with such a schema fails, in a sandbox and at the emulator', async ({ world }) => {
  const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
  const input = { text: 'Some text.', schema: propertiesOf(3, LONG_STRING) }
  for (const client of [twin, world.client]) {
    const task = { idempotency_key: freshKey(), kind: 'extract', input }
    const { body } = await client.post('/v1/ai/tasks', task, { prefer: 'wait=30' })
    expect(body).toMatchObject({
      status: 'failed',
      failure: {
        code: 'ai_invalid_output',
        message: 'The answer was cut off at the limit of output tokens.',
      },
    })
  }
})

anyTest.for([
  ['is longer than the limit', JSON.stringify({ text: 'x'.repeat(100) }), /longer than 100 bytes/],
  ['is no JSON object', '[]', /no JSON object/],
] as const)('an answer of a sandbox that %s counts as none', ([, body, reason]) => {
  const read = () => readAnswer({ status: 200, headers: {}, body }, 100)
  expect(read).toThrow(NoAnswer)
  expect(read).toThrow(reason)
})
