// A list of the API as the address says: its filters, and the page that is shown.
import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import { readPage, type ApiQuery, type ListPage, type PathTo } from '../api.ts'
import { useAddressSearch, type AddressSearch } from '../address.ts'
import { pace } from '../pace.ts'
import { answerKey, retryFirst } from '../queries.ts'

/** A list as `DataTable` and `CsvExport` take it. */
export type ListState<T> = {
  path: PathTo<T[]>
  /** What is asked without the page: the filters. */
  filters: ApiQuery
  query: UseQueryResult<ListPage<T>>
  rows: T[] | undefined
  /** The page is not full because it stopped looking there; the next one goes on. */
  looked_until: string | null
  /** Undefined: there is no such page. */
  goNext: (() => void) | undefined
  goPrevious: (() => void) | undefined
  filtered: boolean
}

/** What is needed of a list; also of one that comes in one answer. */
export type TableList<T> = Pick<
  ListState<T>,
  'rows' | 'looked_until' | 'goNext' | 'goPrevious' | 'filtered'
> & {
  query: Pick<UseQueryResult, 'error' | 'refetch' | 'dataUpdatedAt'>
  /** As of when the answer itself says that it holds; undefined: as of when it was read. */
  as_of?: string | null | undefined
}

/** What a table needs of a list that comes in one answer. */
export function wholeList<T>(
  query: TableList<T>['query'],
  rows: T[] | undefined,
  as_of?: string | null,
): TableList<T> {
  return { query, rows, as_of, looked_until: null, filtered: false, goNext: undefined, goPrevious: undefined }
}

/** The words of the address that say which page of a list is shown. */
const CURSORS = ['before', 'after'] as const

/**
 * Reads the page of a list that the address names: of its query, `names` are filters and go to the API as they are, and
 * the cursor is the page. `fixed` is asked besides and stands in no address. `every_ms`: reads it again and again.
 * `cursor`: of a list that names no next page, the cursor of its last row; the next page is `before` that.
 */
export function useList<T>(
  path: PathTo<T[]>,
  names: readonly string[],
  {
    fixed = {},
    limit = 25,
    every_ms,
    enabled = true,
    cursor: cursorOf,
  }: {
    fixed?: ApiQuery
    limit?: number
    every_ms?: number
    enabled?: boolean
    cursor?: (last: T) => string
  } = {},
): ListState<T> {
  const [search] = useAddressSearch()
  const navigate = useNavigate()
  const trail = useRouterState({ select: ({ location }) => trailOf(location.state) })
  const chosen = pick(search, names)
  const cursor = pick(search, CURSORS)
  const filters = { ...fixed, ...chosen }
  const asked = { ...filters, ...cursor, limit }
  const queryKey = answerKey(path, asked)
  const query = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      if (cursorOf === undefined) return await readPage<T>(path, asked, signal)
      // One more than is shown says whether there is a next page.
      const { rows } = await readPage<T>(path, { ...asked, limit: limit + 1 }, signal)
      const shown = rows.slice(0, limit)
      return { rows: shown, next: rows.length > limit ? { before: cursorOf(shown.at(-1)!) } : null }
    },
    placeholderData: keepPreviousData,
    ...(every_ms !== undefined && { retry: retryFirst(queryKey) }),
    refetchInterval: ({ state }) => every_ms !== undefined && pace(every_ms, state),
    enabled,
  })

  // The pages before this one are kept in the history beside the address, which stays short.
  const go = (to: AddressSearch, before: AddressSearch[]) =>
    void navigate({
      to: '.',
      search: (now: AddressSearch) => ({ ...now, before: undefined, after: undefined, ...to }),
      state: (now) => ({ ...now, trail: before }),
    })
  const next = query.isPlaceholderData ? null : (query.data?.next ?? null)
  return {
    path,
    filters,
    query,
    rows: query.data?.rows,
    looked_until: query.data?.looked_until ?? null,
    filtered: Object.keys(chosen).length > 0,
    goNext: next === null ? undefined : () => go(pick(next, CURSORS), [...trail, cursor]),
    goPrevious:
      Object.keys(cursor).length === 0 ? undefined : () => go(trail.at(-1) ?? {}, trail.slice(0, -1)),
  }
}

function pick(search: AddressSearch, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = search[name]
      return value === undefined || value === '' ? [] : [[name, value]]
    }),
  )
}

function trailOf(state: object): AddressSearch[] {
  return 'trail' in state && Array.isArray(state.trail) ? state.trail : []
}
