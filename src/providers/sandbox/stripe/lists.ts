// Finds objects by id. Returns pages of lists, newest first, for the parameters `limit`, `starting_after`,
// `ending_before` and `created`.
import type { Engine } from './engine.ts'
import { resourceMissing, parameterRefused } from './errors.ts'
import { integerOf, stringOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import { render } from './render.ts'
import type { Rendered } from './rendered.ts'
import { exclusive } from './rules.ts'
import type { Collection } from './store.ts'
import type { Version } from './versions.ts'

export type Page = { object: 'list'; data: Rendered[]; has_more: boolean; url: string }

type Source<T> = {
  url: string
  size: number
  /** The item at this index; the oldest item has index 0. */
  at(index: number): T
  indexOf(id: string): number | undefined
  matches(each: T): boolean
  show(each: T): Rendered
}

/** Returns a page. Refuses a limit outside 1..100 and an unknown cursor. */
export function page<T>(params: Params, source: Source<T>): Page {
  const limit = limitOf(params)
  exclusive(params, 'starting_after', 'ending_before')
  const starting_after = stringOf(params, 'starting_after')
  const ending_before = stringOf(params, 'ending_before')
  const step = ending_before === null ? -1 : 1
  const cursor = starting_after ?? ending_before
  const start = cursor === null ? source.size : source.indexOf(cursor)
  if (start === undefined)
    throw resourceMissing(
      400,
      'object',
      cursor!,
      starting_after === null ? 'ending_before' : 'starting_after',
    )

  const matching: T[] = []
  for (
    let index = start + step;
    index >= 0 && index < source.size && matching.length <= limit;
    index += step
  ) {
    const each = source.at(index)
    if (source.matches(each)) matching.push(each)
  }
  const data = matching.slice(0, limit)
  if (step === 1) data.reverse()
  return {
    object: 'list',
    data: data.map((each) => source.show(each)),
    has_more: matching.length > limit,
    url: source.url,
  }
}

/** Finds an object. Throws a 404 for an unknown id. */
export function requireObject<T>({ byId }: Collection<T>, resource: string, id: string, param = 'id'): T {
  const object = byId.get(id)
  if (object === undefined) throw resourceMissing(404, resource, id, param)
  return object
}

/**
 * A page of a collection. `equal`: fields that must equal the parameter of the same name. `ranges`: numeric fields that
 * must be within the range of the parameter of the same name.
 */
export function listOf<T extends Version>(
  engine: Engine,
  params: Params,
  url: string,
  { ids, byId }: Collection<T>,
  { equal = [], ranges = ['created'] }: { equal?: (string & keyof T)[]; ranges?: (string & keyof T)[] },
): Page {
  const equal_filters = equal
    .map((name) => ({ name, value: stringOf(params, name) }))
    .filter(({ value }) => value !== null)
  const range_filters = ranges
    .filter((name) => params[name] !== undefined)
    .map((name) => ({ name, contains: rangeOf(params, name) }))
  return page(params, {
    url,
    size: ids.length,
    at: (index) => byId.get(ids[index]!)!,
    indexOf: (id) => (byId.has(id) ? found(ids.lastIndexOf(id)) : undefined),
    matches: (each) =>
      equal_filters.every(({ name, value }) => each[name] === value) &&
      range_filters.every(({ name, contains }) => contains(Number(each[name]))),
    show: (each) => render(each, engine.pages_url),
  })
}

function found(index: number): number | undefined {
  return index < 0 ? undefined : index
}

export function limitOf(params: Params): number {
  const limit = integerOf(params, 'limit') ?? 10
  if (limit < 1 || limit > 100)
    throw parameterRefused('Invalid limit: must be between 1 and 100', 'limit', 'parameter_invalid_integer')
  return limit
}

/** A filter by the numeric parameter `name`: `created=1`, or a range such as `created[gte]=1&created[lt]=2`. */
export function rangeOf(params: Params, name: string): (value: number) => boolean {
  const range = params[name]
  if (range === undefined) return () => true
  if (!isParams(range)) {
    const exactly = integerOf(params, name)
    return (value) => value === exactly
  }
  const gte = integerOf(range, 'gte') ?? -Infinity
  const gt = integerOf(range, 'gt') ?? -Infinity
  const lte = integerOf(range, 'lte') ?? Infinity
  const lt = integerOf(range, 'lt') ?? Infinity
  return (value) => value >= gte && value > gt && value <= lte && value < lt
}
