// Changing the tenant whose pages are shown.
import { useNavigate } from '@tanstack/react-router'
import { setRequestTenant, post, errorMessage } from '../api.ts'
import { notify } from '../kit/notices.tsx'
import { queryClient, SESSION_KEY } from '../queries.ts'

/** A function that shows another tenant's pages, beginning with `to`. An operator's look is on record there. */
export function useChooseTenant(): (tenant_id: string, to?: string) => Promise<void> {
  const navigate = useNavigate()
  return async (tenant_id, to = '/') => {
    // What is still asked for the old one would be refused.
    await queryClient.cancelQueries()
    try {
      await post('/session/tenant', { tenant_id })
    } catch (error) {
      return notify({ tone: 'bad', text: error instanceof Error ? errorMessage(error) : String(error) })
    }
    setRequestTenant(tenant_id)
    // Nothing of the other tenant stays on the page.
    queryClient.removeQueries({ predicate: ({ queryKey: [name] }) => name !== SESSION_KEY[0] })
    await queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    await navigate({ to })
  }
}
