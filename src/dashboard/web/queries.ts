// How answers are kept: one client, its retry rules, and hooks that read one resource or go on reading it.
import { QueryCache, QueryClient, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { SluiceError } from '#sdk/index.ts'
import { read, type ApiQuery, type PathTo } from './api.ts'
import { pollInterval } from './poll-interval.ts'

export const SESSION_KEY = ['session'] as const

/** The key of what `path` answers: `[path, query]`. To refresh it and all below: `invalidate(path)`. */
export const answerKey = (path: string, query?: ApiQuery) => [path, query ?? {}] as const

/** Tried again: no answer, a full or broken server, and then twice at most. A refusal is an answer. */
function shouldRetry(failures: number, error: Error): boolean {
  return failures < 2 && error instanceof SluiceError && (error.status === null || error.status >= 502)
}

/** While there is nothing to show. What is shown is read again before long anyway. */
export const retryUntilLoaded =
  (queryKey: readonly unknown[]) =>
  (failures: number, error: Error): boolean =>
    queryClient.getQueryData(queryKey) === undefined && shouldRetry(failures, error)

/** The one client of the page. A 401 anywhere has the session looked at again, which leads to the sign-in. */
export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (error instanceof SluiceError && error.status === 401 && query.queryKey[0] !== SESSION_KEY[0])
        void queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    },
  }),
  defaultOptions: {
    queries: {
      // Without a network requests fail, and say so, as they do without the server.
      networkMode: 'always',
      retry: shouldRetry,
      retryDelay: (failures, error) =>
        ((error instanceof SluiceError ? error.retry_after_s : undefined) ?? 2 ** failures / 2) * 1000,
      staleTime: 2_000,
      gcTime: 60_000,
    },
    // What moves money is never asked twice by itself.
    mutations: { retry: false },
  },
})

/** Reads one resource, e.g. `useAnswer<Customer>('/v1/customers/…')`. `interval_ms`: reads it again and again. */
export function useAnswer<T>(
  path: PathTo<T>,
  query?: ApiQuery,
  { interval_ms, enabled = true }: { interval_ms?: number; enabled?: boolean } = {},
): UseQueryResult<T> {
  const queryKey = answerKey(path, query)
  return useQuery({
    queryKey,
    queryFn: ({ signal }) => read<T>(path, query, signal),
    // What is not there is not asked for again and again.
    refetchInterval: ({ state }) =>
      interval_ms === undefined || (state.data === undefined && state.error !== null)
        ? false
        : pollInterval(interval_ms, state),
    ...(interval_ms !== undefined && { retry: retryUntilLoaded(queryKey) }),
    enabled,
  })
}

/** Has everything read again whose path begins with one of `paths`; for after an act. */
export function invalidate(...paths: string[]): Promise<void> {
  return queryClient.invalidateQueries({
    predicate: ({ queryKey: [path] }) =>
      typeof path === 'string' && paths.some((start) => path.startsWith(start)),
  })
}
