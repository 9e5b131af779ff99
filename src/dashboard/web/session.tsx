// Who is signed in, for which tenant, and what they may do.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { createContext, use } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { waitForChanges, setRequestTenant, read } from './api.ts'
import type { Answers } from './generated/answers.ts'
import { queryClient, SESSION_KEY } from './queries.ts'

export type WebSession = Answers['GET /session']
export type AreaState = WebSession['areas'][number]['state']

/** Whether an error says that nobody is signed in. */
export const isSignedOut = (error: unknown): boolean => error instanceof SluiceError && error.status === 401

/** Reads the session; its error has status 401 when nobody is signed in. */
export function useSessionQuery(): UseQueryResult<WebSession> {
  return useQuery({
    queryKey: SESSION_KEY,
    queryFn: async ({ signal }) => {
      // Read again, it must be for the tenant that the page shows: another tab may have chosen another one.
      const is_first = queryClient.getQueryData(SESSION_KEY) === undefined
      if (is_first) setRequestTenant(null)
      const ask = () => read<WebSession>('/session', undefined, signal)
      const session = await ask().catch(async (error: unknown) => {
        if (is_first || !isSignedOut(error)) throw error
        // A change of the session ends the old one on the server before its answer brings the new one.
        await waitForChanges()
        return await ask()
      })
      setRequestTenant(session.tenant?.id ?? null)
      return session
    },
    staleTime: 60_000,
  })
}

const SessionContext = createContext<WebSession | null>(null)
export const SessionProvider = SessionContext.Provider

/** The session, on every page but those of signing in. */
export function useSession(): WebSession {
  const session = use(SessionContext)
  if (session === null) throw new Error('useSession is for pages of those who are signed in.')
  return session
}

/** Whether the reader may do something here, e.g. `useMay('capturePayment')`. */
export function useMay(act: string): boolean {
  return useSession().may.includes(act)
}

/** How an area stands; one that is not named is deployed. */
export function useAreaState(area: string | undefined): AreaState {
  return useSession().areas.find(({ name }) => name === area)?.state ?? 'deployed'
}

/** The roles that may do something, for people to read: `owner, admin or developer`. */
export function useRolesThatMay(act: string): string {
  const { who_may } = useSession()
  return new Intl.ListFormat('en', { type: 'disjunction' }).format(who_may[act] ?? [])
}
