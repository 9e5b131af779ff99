// Selects the tenant of the session.
import { useNavigate } from '@tanstack/react-router'
import { setRequestTenant, post, errorMessage } from '../api.ts'
import { notify } from '../kit/notices.tsx'
import { queryClient, SESSION_KEY } from '../queries.ts'

/** A function that selects a tenant and goes to `to`. The access of an operator is audited. */
export function useChooseTenant(): (tenant_id: string, to?: string) => Promise<void> {
  const navigate = useNavigate()
  return async (tenant_id, to = '/') => {
    // Pending requests for the old tenant would be refused.
    await queryClient.cancelQueries()
    try {
      await post('/session/tenant', { tenant_id })
    } catch (error) {
      return notify({ tone: 'bad', text: error instanceof Error ? errorMessage(error) : String(error) })
    }
    setRequestTenant(tenant_id)
    // Remove all data of the old tenant.
    queryClient.removeQueries({ predicate: ({ queryKey: [name] }) => name !== SESSION_KEY[0] })
    await queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    await navigate({ to })
  }
}
