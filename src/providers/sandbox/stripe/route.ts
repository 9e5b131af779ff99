// The type of routes: accepted parameters and an operation.
import type { Call } from './call.ts'
import type { Engine } from './engine.ts'
import type { Page } from './lists.ts'
import type { Params } from './parse.ts'
import type { Rendered } from './rendered.ts'
import type { ParameterRules } from './rules.ts'
import type { SearchResult } from './search.ts'
import type { Version } from './versions.ts'

export type Route = {
  accepts: ParameterRules
  /** Type of the answer, or of its list. Null: no `expand` (events, account). */
  object: Version['object'] | null
} & (
  | { one: (engine: Engine, call: Call, ids: PathIds, params: Params) => Version }
  | { list: (engine: Engine, params: Params, ids: PathIds) => Page | SearchResult }
  | { rendered: (engine: Engine, ids: PathIds) => Rendered }
)

/** The ids in a path: `/v1/transfers/{id}/reversals/{part}`; empty if the path has none. */
export type PathIds = { id: string; part: string }

/** Routes by method and path: `POST transfers/:id/reversals`. */
export type Routes = Record<string, Route>

export const PAGING = 'limit starting_after ending_before expand'
