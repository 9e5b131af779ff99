// The list of jobs as the address says: its filters, and the page, with pages both ways.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useAddressSearch } from '../address.ts'
import { read } from '../api.ts'
import { filtersIn } from '../kit/filter-fields.ts'
import type { ListSource, TableList } from '../kit/list.ts'
import { pace } from '../pace.ts'
import { answerKey } from '../queries.ts'
import type { JobRow, JobsAnswer } from './shapes.ts'

const LIMIT = 25
const EVERY_MS = 5_000

/** `fixed` are filters that do not come from the address. */
export function useJobsList(
  { fields }: ListSource<JobRow>,
  fixed?: Record<string, string>,
): TableList<JobRow> & { filters: Record<string, string> } {
  const [search, change] = useAddressSearch()
  const chosen = filtersIn(fields, search)
  const filters = { ...fixed, ...chosen }
  const asked = { ...filters, after: search.after, before: search.before, limit: LIMIT }
  const query = useQuery({
    queryKey: answerKey('/ops/jobs', asked),
    queryFn: ({ signal }) => read<JobsAnswer>('/ops/jobs', asked, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => pace(EVERY_MS, state),
  })
  const { next = null, previous = null, looked_until = null } = query.data ?? {}
  const settled = !query.isPlaceholderData
  return {
    filters,
    looked_until,
    query,
    rows: query.data?.items,
    filtered: Object.keys(chosen).length > 0,
    goNext: settled && next !== null ? () => change({ after: next, before: undefined }) : undefined,
    goPrevious:
      settled && previous !== null ? () => change({ before: previous, after: undefined }) : undefined,
  }
}
