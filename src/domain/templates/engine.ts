// LiquidJS, bounded: whatever a template does, what it makes stays within its limits. It runs in a thread only, because
// some of what a template may ask for cannot be interrupted.
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
import { SIZE_LIMIT, SOURCE_LIMIT, STEP_LIMIT } from './limits.ts'
import { dateIn, money } from './filters.ts'

/** The characters of all sources that are kept compiled. */
const KEPT = 300_000
/** Tags that lead to files, or that only those know. */
const OF_FILES = ['include', 'render', 'layout', 'block']
/** They escape what they are given: it is not escaped once more. */
const ESCAPING = ['escape', 'xml_escape', 'escape_once']
/** They take any value. */
const OF_VALUES = ['json', 'jsonify', 'inspect', 'default', 'size', 'first', 'last', 'map', 'raw']
/** They take values beside a list. */
const OF_LISTS = ['concat', 'push', 'unshift', 'where', 'reject', 'find', 'find_index', 'has', 'group_by']

const TOO_MANY_STEPS = 'step limit exceeded'
/** What LiquidJS and `countSteps` say of limits, and what we do. */
const LIMITS = new Map([
  [TOO_MANY_STEPS, 'it takes too long'],
  ['memory alloc limit exceeded', 'it makes too much'],
  ['parse length limit exceeded', 'it is too long'],
])
/** It says at the end of a message where that is. */
const POSITION = /(?:, file:[^,]*)?, line:\d+, col:\d+$/
/** What an output begins with. */
const VARIABLE = /^\{\{-?\s*([\w.[\]'"-]+)/
/** A message may quote the template. */
const MESSAGE_LIMIT = 200

/** One part of a template. `html`: what is filled in is escaped. */
export type Source = { text: string; html: boolean }

/** Why a source does not compile or render. `line`: null where that is nowhere, as with a limit. */
export type TemplateFault = { message: string; line: number | null; variable: string | null }

const plain = createEngine(false)
const escaping = createEngine(true)
/** Compiled sources, the one that was used last at the end. */
const compiled = new Map<string, Template[]>()
let kept = 0

/**
 * The text that a source becomes; with `variables` null it is only compiled, and the text is empty. Throws what
 * `faultOf` knows.
 */
export function render({ text, html }: Source, variables: object | null): string {
  const templates = compile(text, html)
  if (variables === null) return ''
  return String((html ? escaping : plain).renderSync(templates, variables))
}

/** What is wrong, of what `render` threw. */
export function faultOf(error: unknown): TemplateFault {
  const said = error instanceof Error ? error.message.replace(POSITION, '') : ''
  const limit = LIMITS.get(said)
  if (limit !== undefined || !LiquidError.is(error) || error.originalError instanceof RangeError)
    return { message: limit ?? 'it is too large, or nested too deep', line: null, variable: null }
  const [line] = error.token.getPosition() as [number, number]
  const message = said.slice(0, MESSAGE_LIMIT)
  if (error.originalError instanceof NotText)
    return { message, line, variable: VARIABLE.exec(error.token.getText())?.[1] ?? null }
  if (!(error instanceof UndefinedVariableError)) return { message, line, variable: null }
  return { message, line, variable: message.replace('undefined variable: ', '') }
}

function compile(text: string, html: boolean): Template[] {
  const key = `${html} ${text}`
  const known = compiled.get(key)
  compiled.delete(key)
  const templates = known ?? (html ? escaping : plain).parse(text)
  if (known === undefined) kept += key.length
  compiled.set(key, templates)
  for (const [oldest] of compiled) {
    if (kept <= KEPT) break
    compiled.delete(oldest)
    kept -= oldest.length
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
    // The same wherever it runs.
    timezoneOffset: 0,
    locale: 'en-US',
    parseLimit: SOURCE_LIMIT,
    memoryLimit: SIZE_LIMIT,
    ...(html && { outputEscape: 'escape' }),
  })
  const { outputEscape: escape } = engine.options
  if (escape !== undefined)
    engine.options.outputEscape = function (value) {
      checkText(toValue(value))
      return escape.call(this, value)
    }
  for (const tag of OF_FILES) delete engine.tags[tag]
  for (const [name, filter] of Object.entries(engine.filters))
    engine.registerFilter(name, charged(name, filter, html && ESCAPING.includes(name)))
  engine.registerFilter('range_end', rangeEnd)
  engine.registerFilter('money', money)
  engine.registerFilter('date_in', dateIn)
  const { renderer } = engine
  const unbounded = renderer.renderTemplates.bind(renderer)
  renderer.renderTemplates = (templates, context, emitter = chargedEmitter(context)) => {
    countSteps(context, 1 + templates.length)
    return unbounded(templates, context, emitter)
  }
  return engine
}

/** The steps of each rendering so far, by a limiter that all its contexts share. */
const steps = new WeakMap<object, number>()

/** Steps are counted, not time: the same template ends alike on any machine. */
function countSteps({ renderLimit }: Context, more: number): void {
  const count = (steps.get(renderLimit) ?? 0) + more
  if (count > STEP_LIMIT) throw new Error(TOO_MANY_STEPS)
  steps.set(renderLimit, count)
}

/**
 * A filter whose result counts. LiquidJS counts what some of them are given, and copies of an array as one value each.
 */
function charged(name: string, filter: FilterImplOptions, escapes: boolean): FilterImplOptions {
  const { handler, raw } = typeof filter === 'function' ? { handler: filter, raw: false } : filter
  return {
    raw: raw || escapes,
    *handler(...given) {
      if (!OF_VALUES.includes(name)) checkTexts(name, given)
      const result: unknown = yield handler.apply(this, given)
      charge(this.context, result)
      return result
    },
  }
}

/** Where LiquidJS writes what it renders, also into a variable: without it a text could double with each line. */
function chargedEmitter(context: Context): Emitter {
  const emitter: Emitter = {
    buffer: '',
    write(value: unknown) {
      checkText(toValue(value))
      charge(context, value)
      emitter.buffer += textOf(toValue(value))
    },
  }
  return emitter
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

class NotText extends Error {}

/** A filter makes texts of what it is given, but for lists, of which many filters make others. */
function checkTexts(name: string, [value, ...rest]: unknown[]): void {
  if (!Array.isArray(value) || ESCAPING.includes(name)) checkText(value)
  else if (name === 'join') value.forEach((each) => checkText(toValue(each)))
  if (!OF_LISTS.includes(name)) rest.forEach(checkText)
}

/** Nobody means `[object Object]`, or the parts of a list without anything between them. */
function checkText(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  throw new NotText(
    Array.isArray(value)
      ? 'a list is no text: use join, or a loop'
      : 'an object is no text: name one of its fields',
  )
}

function charge({ memoryLimit }: Context, value: unknown): void {
  memoryLimit.use(sizeOf(value, SIZE_LIMIT + 1))
}

/** How large a value is with all that is in it, an inner one as often as it is there; or at least `most`. */
function sizeOf(value: unknown, most: number): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  for (const [name, each] of Object.entries(value)) {
    if (size >= most) break
    size += (Array.isArray(value) ? 0 : name.length) + sizeOf(each, most - size)
  }
  return size
}

/** Of numbers beyond 2^53 the next is the same, so that a range of them would have no end. */
function rangeEnd(end: unknown): number {
  const number = Number(end)
  if (!(Math.abs(number) < Number.MAX_SAFE_INTEGER)) throw new Error('a range ends in no whole number')
  return number
}

// LiquidJS reads ranges in one place, and offers no other way to look at their ends.
// oxlint-disable-next-line typescript/unbound-method -- it is called with what it belongs to
const { readGroupOrRange } = Tokenizer.prototype
Tokenizer.prototype.readGroupOrRange = function () {
  const range = readGroupOrRange.call(this)
  if (range !== undefined && 'lhs' in range) {
    range.lhs = checked(range.lhs)
    range.rhs = checked(range.rhs)
  }
  return range
}

function checked(end: ValueToken): ValueToken {
  const token = new Tokenizer('0 | range_end').readFilteredValue()
  token.initial = new Expression([end])
  return token
}
