// Lists that come in one answer, as tables take them.
import type { UseQueryResult } from '@tanstack/react-query'
import type { TableList } from '../kit/DataTable.tsx'

/** What a table needs of an answer that has all rows in it. */
export function wholeList<A, T>(query: UseQueryResult<A>, rowsOf: (answer: A) => T[]): TableList<T> {
  const rows = query.data && rowsOf(query.data)
  return { query, rows, filtered: false, goNext: undefined, goPrevious: undefined }
}
