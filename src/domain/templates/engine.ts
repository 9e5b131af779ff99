// LiquidJS with limits on steps and sizes. It runs only in a worker thread, because some template operations cannot be
// interrupted.
import {
  Expression,
  Liquid,
  LiquidError,
  toValue,
  Tokenizer,
  UndefinedVariableError,
  type Context,
  type Emitter,
  type FilterImplOptions,
  type Template,
  type ValueToken,
} from 'liquidjs'
import { MAX_RENDERED_SIZE, MAX_SOURCE_LENGTH, MAX_RENDER_STEPS } from './limits.ts'
import { dateIn, money } from './filters.ts'

/** The maximum number of characters of all cached sources. */
const MAX_CACHED_CHARACTERS = 300_000
/** Tags that read files, or that work only inside such files. */
const FILE_TAGS = ['include', 'render', 'layout', 'block']
/** Filters that escape their input, so their output is not escaped again. */
const ESCAPING_FILTERS = ['escape', 'xml_escape', 'escape_once']
/** Filters that accept any value. */
const VALUE_FILTERS = ['json', 'jsonify', 'inspect', 'default', 'size', 'first', 'last', 'map', 'raw']
/** Filters whose arguments after the list may be any value. */
const LIST_ARGUMENT_FILTERS = [
  'concat',
  'push',
  'unshift',
  'where',
  'reject',
  'find',
  'find_index',
  'has',
  'group_by',
]

const TOO_MANY_STEPS = 'step limit exceeded'
/** The errors about limits, of LiquidJS and of `countSteps`, with the messages for callers. */
const LIMIT_MESSAGES = new Map([
  [TOO_MANY_STEPS, 'it takes too long'],
  ['memory alloc limit exceeded', 'its output is too large'],
  ['parse length limit exceeded', 'it is too long'],
])
/** The position at the end of a LiquidJS message. */
const POSITION = /(?:, file:[^,]*)?, line:\d+, col:\d+$/
/** The variable at the start of an output. */
const VARIABLE = /^\{\{-?\s*([\w.[\]'"-]+)/
/** The maximum length of an error message, which may quote the template. */
const MAX_MESSAGE_LENGTH = 200

/** One part of a template. `html`: inserted values are escaped. */
export type TemplateSource = { text: string; html: boolean }

/** The reason why a source does not compile or render. `line`: null for errors without a position, such as limits. */
export type TemplateFault = { message: string; line: number | null; variable: string | null }

const plain = createEngine(false)
const escaping = createEngine(true)
/** Compiled sources, in the order of their last use. */
const compiled = new Map<string, Template[]>()
let cached_characters = 0

/**
 * The rendered text of a source; with `variables` null the source is only compiled, and the text is empty.
 * `templateFaultOf` translates its errors.
 */
export function render({ text, html }: TemplateSource, variables: object | null): string {
  const templates = compile(text, html)
  if (variables === null) return ''
  return String((html ? escaping : plain).renderSync(templates, variables))
}

/** The fault of an error that `render` threw. */
export function templateFaultOf(error: unknown): TemplateFault {
  const reported = error instanceof Error ? error.message.replace(POSITION, '') : ''
  const limit = LIMIT_MESSAGES.get(reported)
  if (limit !== undefined || !LiquidError.is(error) || error.originalError instanceof RangeError)
    return { message: limit ?? 'it is too large or nested too deeply', line: null, variable: null }
  const [line] = error.token.getPosition() as [number, number]
  const message = reported.slice(0, MAX_MESSAGE_LENGTH)
  if (error.originalError instanceof NotTextError)
    return { message, line, variable: VARIABLE.exec(error.token.getText())?.[1] ?? null }
  if (!(error instanceof UndefinedVariableError)) return { message, line, variable: null }
  return { message, line, variable: message.replace('undefined variable: ', '') }
}

function compile(text: string, html: boolean): Template[] {
  const key = `${html} ${text}`
  const cached = compiled.get(key)
  compiled.delete(key)
  const templates = cached ?? (html ? escaping : plain).parse(text)
  if (cached === undefined) cached_characters += key.length
  compiled.set(key, templates)
  for (const [oldest] of compiled) {
    if (cached_characters <= MAX_CACHED_CHARACTERS) break
    compiled.delete(oldest)
    cached_characters -= oldest.length
  }
  return templates
}

function createEngine(html: boolean): Liquid {
  const engine = new Liquid({
    strictVariables: true,
    strictFilters: true,
    lenientIf: true,
    ownPropertyOnly: true,
    templates: {},
    // Dates have the same results on every host.
    timezoneOffset: 0,
    locale: 'en-US',
    parseLimit: MAX_SOURCE_LENGTH,
    memoryLimit: MAX_RENDERED_SIZE,
    ...(html && { outputEscape: 'escape' }),
  })
  const { outputEscape: escape } = engine.options
  if (escape !== undefined)
    engine.options.outputEscape = function (value) {
      checkText(toValue(value))
      return escape.call(this, value)
    }
  for (const tag of FILE_TAGS) delete engine.tags[tag]
  for (const [name, filter] of Object.entries(engine.filters))
    engine.registerFilter(name, meteredFilter(name, filter, html && ESCAPING_FILTERS.includes(name)))
  engine.registerFilter('range_end', rangeEnd)
  engine.registerFilter('money', money)
  engine.registerFilter('date_in', dateIn)
  const { renderer } = engine
  const unbounded = renderer.renderTemplates.bind(renderer)
  renderer.renderTemplates = (templates, context, emitter = meteredEmitter(context)) => {
    countSteps(context, 1 + templates.length)
    return unbounded(templates, context, emitter)
  }
  return engine
}

/**
 * The number of steps of each rendering so far. The key is the limiter of a rendering, which all contexts of the
 * rendering share.
 */
const steps = new WeakMap<object, number>()

/** Counts steps instead of time, so that a template has the same result on any machine. */
function countSteps({ renderLimit }: Context, added: number): void {
  const count = (steps.get(renderLimit) ?? 0) + added
  if (count > MAX_RENDER_STEPS) throw new Error(TOO_MANY_STEPS)
  steps.set(renderLimit, count)
}

/**
 * A filter that also charges its result to the memory limit. For some filters LiquidJS charges only the input, and it
 * charges a copied array as one value.
 */
function meteredFilter(name: string, filter: FilterImplOptions, escapes: boolean): FilterImplOptions {
  const { handler, raw } = typeof filter === 'function' ? { handler: filter, raw: false } : filter
  return {
    raw: raw || escapes,
    *handler(...args) {
      if (!VALUE_FILTERS.includes(name)) checkTexts(name, args)
      const result: unknown = yield handler.apply(this, args)
      useMemory(this.context, result)
      return result
    },
  }
}

/**
 * An output buffer that is charged to the memory limit, so that captures of captured texts cannot grow without limit.
 */
function meteredEmitter(context: Context): Emitter {
  const emitter: Emitter = {
    buffer: '',
    write(value: unknown) {
      checkText(toValue(value))
      useMemory(context, value)
      emitter.buffer += textOf(toValue(value))
    },
  }
  return emitter
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

class NotTextError extends Error {}

/** Most filters convert their input to text. Lists are allowed, because many filters return lists. */
function checkTexts(name: string, [value, ...rest]: unknown[]): void {
  if (!Array.isArray(value) || ESCAPING_FILTERS.includes(name)) checkText(value)
  else if (name === 'join') value.forEach((each) => checkText(toValue(each)))
  if (!LIST_ARGUMENT_FILTERS.includes(name)) rest.forEach(checkText)
}

/** Refuses objects and lists as text: `[object Object]` and concatenated items are never intended. */
function checkText(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  throw new NotTextError(
    Array.isArray(value)
      ? 'a list is not text: use join or a loop'
      : 'an object is not text: name one of its fields',
  )
}

function useMemory({ memoryLimit }: Context, value: unknown): void {
  memoryLimit.use(sizeOf(value, MAX_RENDERED_SIZE + 1))
}

/**
 * The size of a value with all nested values, counting shared values each time; if it exceeds `max_size`, counting
 * stops and the result is at least `max_size`.
 */
function sizeOf(value: unknown, max_size: number): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  for (const [name, each] of Object.entries(value)) {
    if (size >= max_size) break
    size += (Array.isArray(value) ? 0 : name.length) + sizeOf(each, max_size - size)
  }
  return size
}

/**
 * The end of a range as a number. Refuses numbers from 2^53 - 1: beyond them adding 1 has no effect, and a range
 * would never end.
 */
function rangeEnd(end: unknown): number {
  const number = Number(end)
  if (!(Math.abs(number) < Number.MAX_SAFE_INTEGER))
    throw new Error('the end of a range must be a whole number')
  return number
}

// LiquidJS has no other hook to check the ends of ranges.
// oxlint-disable-next-line typescript/unbound-method -- it is called with its own `this`
const { readGroupOrRange } = Tokenizer.prototype
Tokenizer.prototype.readGroupOrRange = function () {
  const range = readGroupOrRange.call(this)
  if (range !== undefined && 'lhs' in range) {
    range.lhs = checkedEnd(range.lhs)
    range.rhs = checkedEnd(range.rhs)
  }
  return range
}

function checkedEnd(end: ValueToken): ValueToken {
  const token = new Tokenizer('0 | range_end').readFilteredValue()
  token.initial = new Expression([end])
  return token
}
