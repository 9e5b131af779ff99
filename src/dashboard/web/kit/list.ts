// Reads a list of the API. The address determines the filters and the cursor.
import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import { readPage, type ApiQuery, type PageOfRows, type PathTo } from '../api.ts'
import { useAddressSearch, type AddressSearch } from '../address.ts'
import { pollInterval } from '../poll-interval.ts'
import { answerKey, retryUntilLoaded } from '../queries.ts'
import { activeFilters, parametersOf, pickPresent, type FilterField } from './filter-fields.ts'

/** A list, as `DataTable` and `CsvExport` use it. */
export type ListState<T> = {
  path: PathTo<T[]>
  /** Query parameters without the page. */
  filters: ApiQuery
  query: UseQueryResult<PageOfRows<T>>
  rows: T[] | undefined
  /** The scan of this page stopped at this time; the next page continues there. */
  scanned_until: string | null
  /** Goes to the next page. Undefined: there is none. */
  goNext: (() => void) | undefined
  goPrevious: (() => void) | undefined
  is_filtered: boolean
}

/** The part of a list that a table needs. */
export type TableList<T> = Pick<
  ListState<T>,
  'rows' | 'scanned_until' | 'goNext' | 'goPrevious' | 'is_filtered'
> & {
  query: Pick<UseQueryResult, 'error' | 'refetch' | 'dataUpdatedAt'>
  /** The time of the data, according to the response. Undefined: the time of the read. */
  as_of?: string | null | undefined
}

/** A list that is read with one request, for `DataTable`. */
export function singlePageList<T>(
  query: TableList<T>['query'],
  rows: T[] | undefined,
  as_of?: string | null,
): TableList<T> {
  return {
    query,
    rows,
    as_of,
    scanned_until: null,
    is_filtered: false,
    goNext: undefined,
    goPrevious: undefined,
  }
}

/** Parameters of the address that select a page. */
const CURSORS = ['before', 'after'] as const

/** The source of a list. `cursor` returns the cursor of a row, for lists without a `next` link. */
export type ListSource<T> = {
  /** The path as in the OpenAPI document, with `{id}` for an id. */
  path: string
  fields: FilterField[]
  /** Rows per page. */
  limit?: number | undefined
  /** Polling interval in ms. */
  interval_ms?: number | undefined
  cursor?: ((last: T) => string) | undefined
}

/**
 * Reads the page of a list that the address selects by filters and cursor. `fixed` are parameters that are not in the
 * address. `id` replaces `{id}` in the path.
 */
export function useList<T>(
  { path: template, fields, limit = 25, interval_ms, cursor: cursorOf }: ListSource<T>,
  { fixed = {}, id = '', enabled = true }: { fixed?: ApiQuery; id?: string; enabled?: boolean } = {},
): ListState<T> {
  const path = template.replace('{id}', id) as PathTo<T[]>
  const [search] = useAddressSearch()
  const navigate = useNavigate()
  const trail = useRouterState({ select: ({ location }) => trailOf(location.state) })
  const cursor = pickPresent(CURSORS, search)
  const filters = { ...fixed, ...parametersOf(fields, search) }
  const parameters = { ...filters, ...cursor, limit }
  const queryKey = answerKey(path, parameters)
  const query = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      if (cursorOf === undefined) return await readPage<T>(path, parameters, signal)
      // One extra row is read: if it exists, there is a next page.
      const { rows } = await readPage<T>(path, { ...parameters, limit: limit + 1 }, signal)
      const page_rows = rows.slice(0, limit)
      return { rows: page_rows, next: rows.length > limit ? { before: cursorOf(page_rows.at(-1)!) } : null }
    },
    placeholderData: keepPreviousData,
    ...(interval_ms !== undefined && { retry: retryUntilLoaded(queryKey) }),
    refetchInterval: ({ state }) => interval_ms !== undefined && pollInterval(interval_ms, state),
    enabled,
  })

  // The cursors of previous pages are in the history state, which keeps the address short.
  const goToPage = (to: AddressSearch, before: AddressSearch[]) =>
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
    scanned_until: query.data?.scanned_until ?? null,
    is_filtered: Object.keys(activeFilters(fields, search)).length > 0,
    goNext: next === null ? undefined : () => goToPage(pickPresent(CURSORS, next), [...trail, cursor]),
    goPrevious:
      Object.keys(cursor).length === 0 ? undefined : () => goToPage(trail.at(-1) ?? {}, trail.slice(0, -1)),
  }
}

function trailOf(state: object): AddressSearch[] {
  return 'trail' in state && Array.isArray(state.trail) ? state.trail : []
}
