// Pages of a list: newest first, `limit`, `starting_after`, `ending_before`, `created`.
import { missing, parameterRefused } from './errors.ts'
import { integerOf, stringOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import type { Rendered } from './render.ts'

export type Page = { object: 'list'; data: Rendered[]; has_more: boolean; url: string }

type Source<T> = {
  url: string
  size: number
  /** Oldest at 0. */
  at(index: number): T
  indexOf(id: string): number | undefined
  matches(each: T): boolean
  show(each: T): Rendered
}

/** Refuses a limit out of 1..100 and a cursor that is unknown. */
export function page<T>(params: Params, source: Source<T>): Page {
  const limit = limitOf(params)
  const starting_after = stringOf(params, 'starting_after')
  const ending_before = stringOf(params, 'ending_before')
  const step = ending_before === null ? -1 : 1
  const cursor = starting_after ?? ending_before
  const start = cursor === null ? source.size : source.indexOf(cursor)
  if (start === undefined)
    throw missing(400, 'object', cursor!, starting_after === null ? 'ending_before' : 'starting_after')

  const found: T[] = []
  for (let index = start + step; index >= 0 && index < source.size && found.length <= limit; index += step) {
    const each = source.at(index)
    if (source.matches(each)) found.push(each)
  }
  const data = found.slice(0, limit)
  if (step === 1) data.reverse()
  return {
    object: 'list',
    data: data.map((each) => source.show(each)),
    has_more: found.length > limit,
    url: source.url,
  }
}

export function limitOf(params: Params): number {
  const limit = integerOf(params, 'limit') ?? 10
  if (limit < 1 || limit > 100)
    throw parameterRefused('Invalid limit: must be between 1 and 100', 'limit', 'parameter_invalid_integer')
  return limit
}

/** `created=1` or `created[gte]=1&created[lt]=2`, in unix seconds. */
export function filterCreated(params: Params): (created: number) => boolean {
  const range = params['created']
  if (range === undefined) return () => true
  if (!isParams(range)) {
    const exactly = integerOf(params, 'created')
    return (created) => created === exactly
  }
  const gte = integerOf(range, 'gte') ?? -Infinity
  const gt = integerOf(range, 'gt') ?? -Infinity
  const lte = integerOf(range, 'lte') ?? Infinity
  const lt = integerOf(range, 'lt') ?? Infinity
  return (created) => created >= gte && created > gt && created <= lte && created < lt
}
