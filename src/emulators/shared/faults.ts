// Scripted faults: which requests they match, how often, and what fails.
import { patternOf } from './pattern.ts'

/** The actions of faults. `when`: the default time of a fault, before or after the effect of the request. */
const ACTIONS = {
  drop_before: { action: 'drop', when: 'before' },
  drop_after: { action: 'drop', when: 'after' },
  error_500_before: { action: 'error_500', when: 'before' },
  error_500_after: { action: 'error_500', when: 'after' },
  error_500_unstored: { action: 'error_500_unstored', when: 'before' },
  cut_body: { action: 'cut_body', when: 'after' },
  html_503: { action: 'html_503', when: 'before' },
  empty_200: { action: 'empty_200', when: 'after' },
  string_ok: { action: 'string_ok', when: 'after' },
  still_processing: { action: 'still_processing', when: 'after' },
  conflict_409: { action: 'conflict_409', when: 'before' },
  rate_limited_429: { action: 'rate_limited_429', when: 'before' },
  refuse_401: { action: 'refuse_401', when: 'before' },
  refuse_400: { action: 'refuse_400', when: 'before' },
  hold: { action: 'hold', when: 'before' },
} as const
const ALWAYS_BEFORE = new Set<string>([
  'drop_before',
  'error_500_before',
  'error_500_unstored',
  'conflict_409',
  'rate_limited_429',
  'refuse_401',
  'refuse_400',
])

const MAX_FAULTS = 10_000

type FaultName = keyof typeof ACTIONS

/** The names of faults that scripts may use. */
export const FAULT_NAMES = ['delay_ms', ...Object.keys(ACTIONS)]

export type Fault = {
  id: string
  match: { method: string | null; path: RegExp | null; contains: string | null; nth: number | null }
  /** How many more times the fault applies. */
  left: number
  probability: number
  delay_ms: number
  /** The action: `hold`, `drop` and so on; null: only a delay. */
  action: (typeof ACTIONS)[FaultName]['action'] | null
  when: 'before' | 'after'
  /** `Retry-After` of a 429; null: no header. */
  retry_after_s: number | null
  /** Error code of a 400; null: the default of the emulator. */
  code: string | null
  /** The wrong status that the fault `still_processing` reports; null: `processing`. */
  status: string | null
  random: () => number
  /** Number of matching requests. */
  seen: number
  /** Number of requests to which the fault was applied. */
  hits: number
  held: (() => void)[]
  /** The script of the fault. */
  script: unknown
}

export type Faults = { list: Fault[]; waiting: { id: string | null; hits: number; wake: () => void }[] }

export function emptyFaults(): Faults {
  return { list: [], waiting: [] }
}

/** What differs by provider: the id of a new fault, and the error for an invalid script. */
type ScriptRules = { id: string; refuse: (message: string, param: string) => Error }

/**
 * `{ match?: { method?, path? (regular expression), contains? (in path and body), nth? }, times?, probability?, seed?,
 * fault }`. `fault` is a name or an object: `{ drop_after: true }`, `{ hold: 'after' }`, `{ delay_ms: 50, html_503:
 * 'after' }`. A fault applies once by default, or `times` times. With a `probability` (0..1) and without `times`, it
 * applies at random until it is deleted.
 */
export function scriptFault(faults: Faults, script: unknown, { id, refuse }: ScriptRules): Fault {
  const { match, times, probability, seed, fault } = objectOf(script, 'fault script', refuse)
  const { method, path, contains, nth } = objectOf(match ?? {}, 'match', refuse)
  const {
    delay_ms = 0,
    retry_after_s,
    code,
    status,
    ...named
  } = typeof fault === 'string' ? { [fault]: true } : objectOf(fault, 'fault', refuse)
  const entries = Object.entries(named)
  if (entries.length > 1)
    throw refuse('The fault has more than one action: give one action, optionally with delay_ms.', 'fault')
  const [name, value] = entries[0] ?? [null, true]
  if (name !== null && !isName(name))
    throw refuse(`Unknown fault: ${name}. Faults: ${FAULT_NAMES.join(', ')}`, 'fault')
  if (name === null && !(typeof delay_ms === 'number' && delay_ms > 0))
    throw refuse('The fault has no action and no delay_ms.', 'fault')
  const scripted = name === null ? null : ACTIONS[name]
  const added: Fault = {
    id,
    match: {
      method: typeof method === 'string' ? method.toUpperCase() : null,
      path: patternOf(path, 'path', refuse),
      contains: typeof contains === 'string' ? contains : null,
      nth: typeof nth === 'number' ? nth : null,
    },
    left: typeof times === 'number' ? times : probability === undefined ? 1 : Infinity,
    probability: typeof probability === 'number' ? probability : 1,
    delay_ms: typeof delay_ms === 'number' ? delay_ms : 0,
    action: scripted?.action ?? null,
    when:
      name !== null && !ALWAYS_BEFORE.has(name) && (value === 'before' || value === 'after')
        ? value
        : (scripted?.when ?? 'before'),
    retry_after_s: typeof retry_after_s === 'number' ? retry_after_s : null,
    code: typeof code === 'string' ? code : null,
    status: typeof status === 'string' ? status : null,
    random: typeof seed === 'number' ? seeded(seed) : Math.random,
    seen: 0,
    hits: 0,
    held: [],
    script,
  }
  if (faults.list.length >= MAX_FAULTS)
    throw refuse(`There are ${MAX_FAULTS} faults: delete some first.`, 'fault')
  faults.list.push(added)
  return added
}

/** Returns the first fault that matches this request, and decrements its `left`. `text`: path and body. */
export function nextFault(faults: Faults, method: string, path: string, text: string): Fault | null {
  for (const fault of faults.list) {
    const { match } = fault
    if (match.method !== null && match.method !== method) continue
    if (match.path && !match.path.test(path)) continue
    if (match.contains !== null && !text.includes(match.contains)) continue
    fault.seen++
    if (fault.left <= 0 || (match.nth !== null && fault.seen < match.nth)) continue
    if (fault.probability < 1 && fault.random() >= fault.probability) continue
    fault.left--
    return fault
  }
  return null
}

/** Counts a hit and wakes the waiters of `waitForHits`. */
export function countHit(faults: Faults, fault: Fault): void {
  fault.hits++
  const awake = faults.waiting.filter((each) => hitsOf(faults, each.id) >= each.hits)
  faults.waiting = faults.waiting.filter((each) => !awake.includes(each))
  for (const each of awake) each.wake()
}

/** The number of hits of one fault, or of all faults. */
export function hitsOf(faults: Faults, id: string | null): number {
  return faults.list.reduce((sum, each) => (id === null || each.id === id ? sum + each.hits : sum), 0)
}

/** Waits until the fault (null: all faults together) has this many hits. False if `timeout_ms` passes first. */
export function waitForHits(
  faults: Faults,
  id: string | null,
  hits: number,
  timeout_ms: number,
): Promise<boolean> {
  if (hitsOf(faults, id) >= hits) return Promise.resolve(true)
  return new Promise((resolve) => {
    const waiter = { id, hits, wake: () => finish(true) }
    const timer = setTimeout(() => finish(false), timeout_ms).unref()
    function finish(happened: boolean): void {
      clearTimeout(timer)
      faults.waiting = faults.waiting.filter((each) => each !== waiter)
      resolve(happened)
    }
    faults.waiting.push(waiter)
  })
}

/** Holds a request until `release`. */
export function holdRequest(fault: Fault): Promise<void> {
  return new Promise((resolve) => fault.held.push(resolve))
}

/** Releases the held requests of one fault, or of all. Returns their number. */
export function release(faults: Faults, id: string | null): number {
  const held = faults.list
    .filter((each) => id === null || each.id === id)
    .flatMap((each) => each.held.splice(0))
  for (const resume of held) resume()
  return held.length
}

/** Removes one fault or all, and releases their held requests. */
export function removeFaults(faults: Faults, id: string | null): void {
  release(faults, id)
  faults.list = faults.list.filter((each) => id !== null && each.id !== id)
}

/** A fault as JSON for the controls. `left` null: unlimited. */
export function describeFault(fault: Fault): Record<string, unknown> {
  const { id, seen, hits, held, left, script } = fault
  return { id, seen, hits, held: held.length, left: Number.isFinite(left) ? left : null, script }
}

function isName(name: string): name is FaultName {
  return Object.hasOwn(ACTIONS, name)
}

function objectOf(value: unknown, what: string, refuse: ScriptRules['refuse']): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw refuse(`Invalid ${what}: must be an object`, what)
}

/** A deterministic generator of numbers between 0 and 1 (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
