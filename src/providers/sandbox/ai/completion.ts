// The model of the sandbox: a deterministic answer for each request.

type Schema = Record<string, unknown>

/** The parts of a completion request that determine the answer. */
export type CompletionInput = {
  model: string
  /** The last message of the user. */
  text: string
  /** The requested JSON Schema and its name; null: text. */
  format: { name: string; schema: Schema } | null
  max_tokens: number | null
  input_tokens: number
}

export type CompletionOutput = {
  content: string | null
  refusal: string | null
  finish_reason: 'stop' | 'length'
  output_tokens: number
}

/** How `[[slow]]` in the text delays the answer. */
export const SLOW_DELAY_MS = 3_000
const CHARACTERS_PER_TOKEN = 4
const MAX_ECHO_LENGTH = 200
/** Maximum depth of a generated value: references of a schema may be cyclic and grow exponentially. */
const MAX_DEPTH = 24
const MAX_VALUES = 10_000

/**
 * The completion: a text made from the input, or a value of the schema. `[[refuse]]` and `[[garbage]]` in the text
 * trigger failures.
 */
export function completionFor({ text, format, max_tokens }: CompletionInput): CompletionOutput {
  if (text.includes('[[refuse]]'))
    return { content: null, refusal: 'I cannot help with that.', finish_reason: 'stop', output_tokens: 6 }
  if (text.includes('[[garbage]]')) {
    // Without a schema any text is a valid answer, so `[[garbage]]` returns no content.
    const content = format === null ? null : '%% not the requested JSON'
    return { content, refusal: null, finish_reason: 'stop', output_tokens: 6 }
  }
  const full =
    format === null ? `You said: ${text.slice(0, MAX_ECHO_LENGTH)}` : JSON.stringify(jsonFor(format, text))
  const cut = max_tokens !== null && tokensOf(full) > max_tokens
  const content = cut ? full.slice(0, max_tokens * CHARACTERS_PER_TOKEN) : full
  return { content, refusal: null, finish_reason: cut ? 'length' : 'stop', output_tokens: tokensOf(content) }
}

/** The number of tokens of a text. */
export function tokensOf(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN)
}

function jsonFor({ name, schema }: NonNullable<CompletionInput['format']>, text: string): unknown {
  const label = (schema['properties'] as { label?: Schema } | undefined)?.label
  if (name !== 'classify' || !Array.isArray(label?.['enum']))
    return valueOf(schema, { schema, left: MAX_VALUES }, 0)
  const labels = label['enum'].map(String)
  return { label: labels.find((each) => text.includes(each)) ?? labels[0] }
}

/** What the text of a request triggers before an answer, or instead of one. `limited`: only the first time. */
export function triggersIn(text: string): { failed: boolean; limited: boolean; slow: boolean } {
  return {
    failed: text.includes('[[500]]'),
    limited: text.includes('[[429]]'),
    slow: text.includes('[[slow]]'),
  }
}

/** The body of an answer. `created`: unix seconds. */
export function completionBody(
  { model, input_tokens }: CompletionInput,
  { content, refusal, finish_reason, output_tokens }: CompletionOutput,
  { id, created }: { id: string; created: number },
) {
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content, refusal }, logprobs: null, finish_reason }],
    usage: {
      prompt_tokens: input_tokens,
      completion_tokens: output_tokens,
      total_tokens: input_tokens + output_tokens,
    },
  }
}

/** The complete schema, and the number of values that may still be generated. */
type Root = { schema: Schema; left: number }

/** A value from the defaults, enums and types of a schema. */
function valueOf(value: unknown, root: Root, level: number): unknown {
  if (typeof value !== 'object' || value === null || level > MAX_DEPTH || root.left-- <= 0) return null
  if ('default' in value) return value.default
  const schema = resolved(value as Schema, root.schema)
  if ('default' in schema) return schema['default']
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum'])) return schema['enum'][0]
  for (const name of ['anyOf', 'oneOf']) {
    const choices = schema[name]
    if (Array.isArray(choices)) return valueOf(choices[0], root, level + 1)
  }
  if (Array.isArray(schema['allOf'])) {
    const parts = schema['allOf'].map((part) => valueOf(part, root, level + 1))
    return Object.assign({}, ...parts) as unknown
  }
  return valueOfType(schema, root, level)
}

function valueOfType(schema: Schema, root: Root, level: number): unknown {
  const { type, properties, items, required } = schema
  switch (Array.isArray(type) ? type[0] : (type ?? (properties === undefined ? 'string' : 'object'))) {
    case 'object': {
      const defined = (properties ?? {}) as Record<string, unknown>
      const names = new Set([
        ...Object.keys(defined),
        ...(Array.isArray(required) ? required.map(String) : []),
      ])
      return Object.fromEntries(
        Array.from(names, (name) => [name, valueOf(defined[name] ?? {}, root, level + 1)]),
      )
    }
    case 'array':
      return Array.from({ length: Math.min(numberOf(schema, 'minItems', 0), 100) }, () =>
        valueOf(items ?? {}, root, level + 1),
      )
    case 'integer':
    case 'number': {
      const min = numberOf(schema, 'minimum', Math.min(0, numberOf(schema, 'maximum', 0)))
      const above = numberOf(schema, 'exclusiveMinimum', min - 1) + 1
      const step = numberOf(schema, 'multipleOf', 0)
      const number = Math.max(min, above)
      return step > 0 ? Math.ceil(number / step) * step : number
    }
    case 'boolean':
      return false
    case 'null':
      return null
    default:
      return 'text'
        .padEnd(numberOf(schema, 'minLength', 0), '.')
        .slice(0, numberOf(schema, 'maxLength', 1_000))
  }
}

function resolved(schema: Schema, root: Schema): Schema {
  let found: unknown = schema
  for (let steps = 0; steps < MAX_DEPTH; steps++) {
    const reference = (found as Schema)['$ref']
    if (typeof reference !== 'string') break
    found = reference
      .split('/')
      .slice(1)
      .reduce<unknown>((part, name) => (part as Schema | undefined)?.[name], root)
    if (typeof found !== 'object' || found === null) return {}
  }
  return found as Schema
}

function numberOf(schema: Schema, name: string, fallback: number): number {
  const value = schema[name]
  return typeof value === 'number' ? value : fallback
}
