// The linearizability search of Wing and Gong with memoization: is there an order of all calls, each taking effect
// between its start and its end, in which a state machine gives all answers?

/**
 * One step of a call. `next` returns the state after the step, or null if the answer is impossible in this state.
 * `reads`: the step never changes the state.
 */
export type Step<S> = { reads: boolean; next: (state: S) => S | null }

/** A call whose steps happen in order between `start` and `end`. An optional span may be left out. */
export type Span<S> = { start: number; end: number; optional: boolean; steps: Step<S>[] }

export type Machine<S> = {
  initial: S
  /** A key of the state. Equal states have equal keys. */
  keyOf: (state: S) => string
  /** The states that this state may change to without a call, at any time. */
  spontaneousSteps: (state: S) => S[]
}

/** `stuck`: the states in which the search had explained the most calls. `gave_up`: the search stopped at its limit. */
export type Explanation<S> = { found: true } | { found: false; gave_up: boolean; stuck: S[] }

/** The search gives up after this many configurations. */
const MAX_CONFIGURATIONS = 200_000

/** Searches for an order of the spans that explains all of them. */
export function explain<S>(spans: Span<S>[], machine: Machine<S>): Explanation<S> {
  const seen = new Set<string>()
  let furthest = -1
  let stuck: S[] = []
  let gave_up = false

  // `done` counts the finished steps of each span.
  function visit(before: Uint8Array, state: S): boolean {
    const done = read(before, state)
    const key = `${String.fromCharCode(...done)}${machine.keyOf(state)}`
    if (seen.has(key)) return false
    seen.add(key)
    if (seen.size > MAX_CONFIGURATIONS) {
      gave_up = true
      return false
    }
    const horizon = horizonOf(done)
    if (horizon === Infinity) return true
    note(done, state)
    // Required spans are tried first, optional spans last.
    for (const optional of [false, true]) {
      for (const [nth, span] of spans.entries()) {
        if (span.optional !== optional || span.start > horizon || done[nth] === span.steps.length) continue
        const after = span.steps[done[nth]!]!.next(state)
        if (after !== null && visit(stepped(done, nth), after)) return true
      }
      if (!optional) for (const after of machine.spontaneousSteps(state)) if (visit(done, after)) return true
    }
    return false
  }

  /** Applies all reads that are possible now. Delaying a possible read never helps. */
  function read(before: Uint8Array, state: S): Uint8Array {
    const done = before.slice()
    for (let more = true; more;) {
      more = false
      const horizon = horizonOf(done)
      for (const [nth, { start, steps }] of spans.entries()) {
        if (start > horizon) continue
        for (
          let step = steps[done[nth]!];
          step?.reads && step.next(state) !== null;
          step = steps[done[nth]!]
        ) {
          done[nth]! += 1
          more = true
        }
      }
    }
    return done
  }

  /** The earliest end of a required span that is not finished. Spans that start after that end cannot come first. */
  function horizonOf(done: Uint8Array): number {
    let horizon = Infinity
    for (const [nth, { optional, end, steps }] of spans.entries())
      if (!optional && end < horizon && done[nth]! < steps.length) horizon = end
    return horizon
  }

  function note(done: Uint8Array, state: S): void {
    const count = spans.filter(({ optional, steps }, nth) => !optional && done[nth] === steps.length).length
    if (count < furthest) return
    if (count > furthest) stuck = []
    furthest = count
    stuck.push(state)
  }

  if (visit(new Uint8Array(spans.length), machine.initial)) return { found: true }
  return { found: false, gave_up, stuck }
}

function stepped(done: Uint8Array, nth: number): Uint8Array {
  const after = done.slice()
  after[nth]! += 1
  return after
}
