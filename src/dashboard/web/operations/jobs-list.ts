// Reads the list of jobs, with paging in both directions. The address determines the filters and the cursor.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useAddressSearch } from '../address.ts'
import { read } from '../api.ts'
import { activeFilters } from '../kit/filter-fields.ts'
import type { ListSource, TableList } from '../kit/list.ts'
import { pollInterval } from '../poll-interval.ts'
import { answerKey } from '../queries.ts'
import type { JobRow, JobsAnswer } from './shapes.ts'

const LIMIT = 25
const INTERVAL_MS = 5_000

/** `fixed` are filters that are not in the address. */
export function useJobsList(
  { fields }: ListSource<JobRow>,
  fixed?: Record<string, string>,
): TableList<JobRow> & { filters: Record<string, string> } {
  const [search, change] = useAddressSearch()
  const chosen = activeFilters(fields, search)
  const filters = { ...fixed, ...chosen }
  const parameters = { ...filters, after: search.after, before: search.before, limit: LIMIT }
  const query = useQuery({
    queryKey: answerKey('/ops/jobs', parameters),
    queryFn: ({ signal }) => read<JobsAnswer>('/ops/jobs', parameters, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => pollInterval(INTERVAL_MS, state),
  })
  const { next = null, previous = null, scanned_until = null } = query.data ?? {}
  const settled = !query.isPlaceholderData
  return {
    filters,
    scanned_until,
    query,
    rows: query.data?.items,
    is_filtered: Object.keys(chosen).length > 0,
    goNext: settled && next !== null ? () => change({ after: next, before: undefined }) : undefined,
    goPrevious:
      settled && previous !== null ? () => change({ before: previous, after: undefined }) : undefined,
  }
}
