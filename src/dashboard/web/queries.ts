// The query cache: its client, its retry rules, and hooks that read one resource.
import { QueryCache, QueryClient, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { SluiceError } from '#sdk/index.ts'
import { read, type ApiQuery, type PathTo } from './api.ts'
import { pollInterval } from './poll-interval.ts'

export const SESSION_KEY = ['session'] as const

/** The cache key of a path: `[path, query]`. `invalidate(path)` refreshes the path and all paths below it. */
export const answerKey = (path: string, query?: ApiQuery) => [path, query ?? {}] as const

/** Retries a request at most twice, if it got no response or a status of 502 or higher. */
function shouldRetry(failures: number, error: Error): boolean {
  return failures < 2 && error instanceof SluiceError && (error.status === null || error.status >= 502)
}

/** Retries only while there is no data. Later polls replace retries. */
export const retryUntilLoaded =
  (queryKey: readonly unknown[]) =>
  (failures: number, error: Error): boolean =>
    queryClient.getQueryData(queryKey) === undefined && shouldRetry(failures, error)

/** The query client of the page. After a 401, the session is refetched, which leads to the sign-in. */
export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (error instanceof SluiceError && error.status === 401 && query.queryKey[0] !== SESSION_KEY[0])
        void queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    },
  }),
  defaultOptions: {
    queries: {
      // Offline, requests are sent and fail, as without a server. The default would wait until the browser is online.
      networkMode: 'always',
      retry: shouldRetry,
      retryDelay: (failures, error) =>
        ((error instanceof SluiceError ? error.retry_after_s : undefined) ?? 2 ** failures / 2) * 1000,
      staleTime: 2_000,
      gcTime: 60_000,
    },
    // The query client never retries acts. The SDK retries acts with an idempotency key.
    mutations: { retry: false },
  },
})

/** Reads one resource, e.g. `useAnswer<Customer>('/v1/customers/…')`. With `interval_ms`, polls it. */
export function useAnswer<T>(
  path: PathTo<T>,
  query?: ApiQuery,
  { interval_ms, enabled = true }: { interval_ms?: number; enabled?: boolean } = {},
): UseQueryResult<T> {
  const queryKey = answerKey(path, query)
  return useQuery({
    queryKey,
    queryFn: ({ signal }) => read<T>(path, query, signal),
    // A resource that could not be read is not polled.
    refetchInterval: ({ state }) =>
      interval_ms === undefined || (state.data === undefined && state.error !== null)
        ? false
        : pollInterval(interval_ms, state),
    ...(interval_ms !== undefined && { retry: retryUntilLoaded(queryKey) }),
    enabled,
  })
}

/** Refetches all queries whose path begins with one of `paths`. For use after an act. */
export function invalidate(...paths: string[]): Promise<void> {
  return queryClient.invalidateQueries({
    predicate: ({ queryKey: [path] }) =>
      typeof path === 'string' && paths.some((start) => path.startsWith(start)),
  })
}
