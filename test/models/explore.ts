// Explores every reachable state of a model, breadth first: a counterexample has as few steps as possible.

/** A step of a model. `problem`: what this step must never do, if it does. */
export type Step<State> = { label: string; next: State; problem?: string }

/** A model. States are never changed; the parts of a state that a step leaves alone are shared. */
export type Model<State extends object> = {
  initial: State
  steps: (state: State) => Step<State>[]
  /** What is wrong in this state; undefined if nothing is. */
  problem: (state: State) => string | undefined
  /** Whether all work is done: a state from which no such state can be reached is a counterexample too. */
  isSettled: (state: State) => boolean
}

export type Exploration = {
  states: number
  steps: number
  /** What went wrong, and the labels of the steps that lead there; undefined if nothing can go wrong. */
  counterexample?: { problem: string; trace: string[] }
}

/** A list of integers without a fixed length: four bytes for each. */
class Integers {
  #values = new Int32Array(1 << 16)
  length = 0

  push(value: number): void {
    if (this.length === this.#values.length) {
      const values = new Int32Array(this.length * 2)
      values.set(this.#values)
      this.#values = values
    }
    this.#values[this.length++] = value
  }

  at(index: number): number {
    return this.#values[index]!
  }
}

/**
 * Returns a function that gives equal states the same short text. Each distinct part of a state has a number, and the
 * text consists of the numbers as characters.
 */
function createEncoder(): (state: object) => string {
  const numbers = new Map<string, number>()
  const known = new WeakMap<object, number>()
  const numberOf = (part: unknown): number => {
    const cached = typeof part === 'object' && part !== null ? known.get(part) : undefined
    if (cached !== undefined) return cached
    const text = JSON.stringify(part)
    const number = numbers.get(text) ?? numbers.size
    numbers.set(text, number)
    if (typeof part === 'object' && part !== null) known.set(part, number)
    return number
  }
  return (state) => {
    let text = ''
    for (const part of Object.values(state)) {
      const number = numberOf(part)
      text += String.fromCharCode(number & 0xffff, number >>> 16)
    }
    return text
  }
}

/**
 * Explores all states of a model, until a problem is found. Throws if there are more than `max_states`.
 */
export function explore<State extends object>(
  model: Model<State>,
  { max_states = 5_000_000 }: { max_states?: number } = {},
): Exploration {
  const encode = createEncoder()
  const indexes = new Map<string, number>()
  const queue: (State | undefined)[] = []
  const parents = new Integers()
  const labels: string[] = []
  // The successors of state i are `successors[starts[i]]` up to `successors[starts[i + 1]]`.
  const starts = new Integers()
  const successors = new Integers()
  const settled: number[] = []

  const add = (state: State, parent: number, label: string): number => {
    const key = encode(state)
    const known = indexes.get(key)
    if (known !== undefined) return known
    const index = queue.length
    if (index >= max_states) throw new Error(`the model has more than ${max_states} states`)
    indexes.set(key, index)
    queue.push(state)
    parents.push(parent)
    labels.push(label)
    return index
  }
  const traceTo = (index: number): string[] => {
    const trace: string[] = []
    for (let i = index; i > 0; i = parents.at(i)) trace.push(labels[i]!)
    return trace.toReversed()
  }
  const found = (problem: string, trace: string[]): Exploration => ({
    states: queue.length,
    steps: successors.length,
    counterexample: { problem, trace },
  })

  add(model.initial, -1, '')
  for (let i = 0; i < queue.length; i++) {
    const state = queue[i]!
    // Only states that are still to be expanded are kept.
    queue[i] = undefined
    if (model.isSettled(state)) settled.push(i)
    starts.push(successors.length)
    for (const { label, next, problem } of model.steps(state)) {
      if (problem !== undefined) return found(problem, [...traceTo(i), label])
      const known = queue.length
      const index = add(next, i, label)
      const problem_there = index === known ? model.problem(next) : undefined
      if (problem_there !== undefined) return found(problem_there, traceTo(index))
      successors.push(index)
    }
  }
  starts.push(successors.length)
  const stuck = findStuck(queue.length, starts, successors, settled)
  if (stuck !== undefined) return found('from here nothing leads to an end of all work', traceTo(stuck))
  return { states: queue.length, steps: successors.length }
}

/** The first state from which no settled state can be reached. */
function findStuck(
  count: number,
  starts: Integers,
  successors: Integers,
  settled: number[],
): number | undefined {
  // The predecessors of state i are `predecessors[firsts[i]]` up to `predecessors[firsts[i + 1]]`.
  const firsts = new Int32Array(count + 1)
  for (let i = 0; i < successors.length; i++) firsts[successors.at(i) + 1]! += 1
  for (let i = 0; i < count; i++) firsts[i + 1]! += firsts[i]!
  const ends = firsts.slice()
  const predecessors = new Int32Array(successors.length)
  for (let from = 0; from < count; from++)
    for (let i = starts.at(from); i < starts.at(from + 1); i++) predecessors[ends[successors.at(i)]!++] = from
  const can_settle = new Uint8Array(count)
  const stack = [...settled]
  for (const index of stack) can_settle[index] = 1
  while (stack.length > 0) {
    const index = stack.pop()!
    for (let i = firsts[index]!; i < firsts[index + 1]!; i++) {
      const from = predecessors[i]!
      if (can_settle[from] === 1) continue
      can_settle[from] = 1
      stack.push(from)
    }
  }
  const stuck = can_settle.indexOf(0)
  return stuck === -1 ? undefined : stuck
}
