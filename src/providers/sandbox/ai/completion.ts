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
/** A longer answer is cut off here, as at a limit of output tokens. */
const MAX_CONTENT_LENGTH = 256 * 1024
/** Maximum depth of a generated value: references of a schema may be cyclic and grow exponentially. */
const MAX_DEPTH = 24
const MAX_VALUES = 10_000
const MAX_ITEMS = 100

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
  const max_length = Math.min(MAX_CONTENT_LENGTH, (max_tokens ?? Infinity) * CHARACTERS_PER_TOKEN)
  const content = full.slice(0, max_length)
  const finish_reason = content.length < full.length ? 'length' : 'stop'
  return { content, refusal: null, finish_reason, output_tokens: tokensOf(content) }
}

/** The number of tokens of a text. */
export function tokensOf(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN)
}

function jsonFor({ name, schema }: NonNullable<CompletionInput['format']>, text: string): unknown {
  const label = (schema['properties'] as { label?: Schema } | undefined)?.label
  if (name !== 'classify' || !Array.isArray(label?.['enum']))
    return valueOf(schema, { schema, targets: new Map(), values_left: MAX_VALUES, characters: 0 }, 0)
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

/**
 * The complete schema, the targets of its references, the number of values that may still be generated, and the number
 * of characters that were.
 */
type Root = { schema: Schema; targets: Map<string, unknown>; values_left: number; characters: number }

/** Whether the answer is as long, or took as much work, as it may. Each loop over parts of a schema ends then. */
function isSpent({ values_left, characters }: Root): boolean {
  return values_left <= 0 || characters > MAX_CONTENT_LENGTH
}

/** A value from the defaults, enums and types of a schema. What follows a spent answer is left out of it. */
function valueOf(value: unknown, root: Root, level: number): unknown {
  root.values_left--
  if (typeof value !== 'object' || value === null || level > MAX_DEPTH || isSpent(root)) return null
  if ('default' in value) return counted(value.default, root)
  const schema = resolved(value as Schema, root)
  if ('default' in schema) return counted(schema['default'], root)
  if ('const' in schema) return counted(schema['const'], root)
  if (Array.isArray(schema['enum'])) return counted((schema['enum'] as unknown[])[0] ?? null, root)
  for (const name of ['anyOf', 'oneOf']) {
    const choices = schema[name]
    if (Array.isArray(choices)) return valueOf(choices[0], root, level + 1)
  }
  if (Array.isArray(schema['allOf'])) {
    const parts = valuesOf(schema['allOf'], root, level + 1)
    // The parts of an object may have no type, and then are texts.
    const objects = parts.filter(isObject)
    return objects.length > 0 ? (Object.assign({}, ...objects) as unknown) : (parts[0] ?? null)
  }
  return valueOfType(schema, root, level)
}

function valueOfType(schema: Schema, root: Root, level: number): unknown {
  const { type, properties, items, required } = schema
  switch (Array.isArray(type) ? type[0] : (type ?? (properties === undefined ? 'string' : 'object'))) {
    case 'object': {
      const defined = (properties ?? {}) as Record<string, unknown>
      const values = new Map<string, unknown>()
      for (const names of [Object.keys(defined), Array.isArray(required) ? required : []])
        for (const name of names.map(String)) {
          if (isSpent(root)) break
          if (!values.has(name))
            values.set(counted(name, root), valueOf(defined[name] ?? {}, root, level + 1))
        }
      return Object.fromEntries(values)
    }
    case 'array': {
      const length = Math.min(numberOf(schema, 'minItems', 0), MAX_ITEMS)
      return valuesOf(Array<unknown>(length).fill(items ?? {}), root, level + 1)
    }
    case 'integer':
    case 'number': {
      const min = numberOf(schema, 'minimum', Math.min(0, numberOf(schema, 'maximum', 0)))
      const above = numberOf(schema, 'exclusiveMinimum', min - 1) + 1
      const step = numberOf(schema, 'multipleOf', 0)
      const number = Math.max(min, above)
      return counted(step > 0 ? Math.ceil(number / step) * step : number, root)
    }
    case 'boolean':
      return counted(false, root)
    case 'null':
      return counted(null, root)
    default: {
      // A string that is longer than an answer may be is cut off with the answer.
      const max_length = Math.min(numberOf(schema, 'maxLength', Infinity), MAX_CONTENT_LENGTH)
      const length = Math.min(numberOf(schema, 'minLength', 0), max_length)
      return counted('text'.padEnd(length, '.').slice(0, max_length), root)
    }
  }
}

function valuesOf(schemas: unknown[], root: Root, level: number): unknown[] {
  const values: unknown[] = []
  for (const schema of schemas) {
    if (isSpent(root)) break
    values.push(valueOf(schema, root, level))
  }
  return values
}

/** Adds the length of a part to the generated characters. */
function counted<Part>(part: Part, root: Root): Part {
  root.characters += JSON.stringify(part).length
  return part
}

/** The target of a schema's reference; without one the schema itself. */
function resolved(schema: Schema, root: Root): Schema {
  let found: unknown = schema
  for (let steps = 0; steps < MAX_DEPTH; steps++) {
    const reference = (found as Schema)['$ref']
    if (typeof reference !== 'string') break
    found = targetOf(reference, root)
    if (typeof found !== 'object' || found === null) return {}
  }
  return found as Schema
}

/** Each reference is followed once, however often a schema has it. */
function targetOf(reference: string, { schema, targets }: Root): unknown {
  if (!targets.has(reference)) {
    const [, ...path] = reference.split('/')
    targets.set(
      reference,
      path.reduce<unknown>((part, name) => (part as Schema | undefined)?.[name], schema),
    )
  }
  return targets.get(reference)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function numberOf(schema: Schema, name: string, fallback: number): number {
  const value = schema[name]
  return typeof value === 'number' ? value : fallback
}
