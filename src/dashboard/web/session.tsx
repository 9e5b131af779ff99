// The session: user, tenant and permissions.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { createContext, use } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { waitForChanges, setRequestTenant, post, read } from './api.ts'
import type { Answers } from './generated/answers.ts'
import { queryClient, SESSION_KEY } from './queries.ts'

export type WebSession = Answers['GET /session']
export type AreaState = WebSession['areas'][number]['state']

/** Whether an error means that the user is signed out. */
export const isSignedOut = (error: unknown): boolean => error instanceof SluiceError && error.status === 401

/**
 * Reads the session. The error has status 401 if the user is signed out. The first page of test mode creates the twin
 * of the tenant.
 */
export function useSessionQuery(): UseQueryResult<WebSession> {
  return useQuery({
    queryKey: SESSION_KEY,
    queryFn: async ({ signal }) => {
      // A later read names the tenant of the page, because another tab may have selected another tenant.
      const is_first = queryClient.getQueryData(SESSION_KEY) === undefined
      if (is_first) setRequestTenant(null)
      const request = () => read<WebSession>('/session', undefined, signal)
      let session = await request().catch(async (error: unknown) => {
        if (is_first || !isSignedOut(error)) throw error
        // An act may just have replaced the session: the old one ends before the response with the new cookie arrives.
        await waitForChanges()
        return await request()
      })
      const { tenant_without_twin } = session
      if (tenant_without_twin !== null) {
        await post('/session/tenant', { tenant_id: tenant_without_twin, mode: 'test' })
        session = await request()
      }
      setRequestTenant(session.tenant?.id ?? null)
      return session
    },
    staleTime: 60_000,
  })
}

const SessionContext = createContext<WebSession | null>(null)
export const SessionProvider = SessionContext.Provider

/** The session. Only for pages within the shell. */
export function useSession(): WebSession {
  const session = use(SessionContext)
  if (session === null) throw new Error('useSession was called on a page without a session.')
  return session
}

/** Whether the user may call an operation, e.g. `useMay('capturePayment')`. */
export function useMay(act: string): boolean {
  return useSession().may.includes(act)
}

/** The state of an area. Default: deployed. */
export function useAreaState(area: string | undefined): AreaState {
  return useSession().areas.find(({ name }) => name === area)?.state ?? 'deployed'
}

/** The roles that may call an operation, as text: `owner, admin or developer`. */
export function useRolesThatMay(act: string): string {
  const { who_may } = useSession()
  return new Intl.ListFormat('en', { type: 'disjunction' }).format(who_may[act] ?? [])
}
