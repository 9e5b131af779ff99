// Selects the tenant of the session.
import { useNavigate } from '@tanstack/react-router'
import { setRequestTenant, post, errorMessage } from '../api.ts'
import type { Answers } from '../generated/answers.ts'
import { notify } from '../kit/notices.tsx'
import { MODE, openInMode, type Mode } from '../mode.ts'
import { queryClient, SESSION_KEY } from '../queries.ts'

/**
 * A function that selects a tenant and goes to `to`, in the mode of the tenant or in `mode`. The access of an operator
 * is audited.
 */
export function useChooseTenant(): (tenant_id: string, to?: string, mode?: Mode) => Promise<void> {
  const navigate = useNavigate()
  return async (tenant_id, to = '/', mode) => {
    // Pending requests for the old tenant would be refused.
    await queryClient.cancelQueries()
    let selected: Answers['POST /session/tenant']
    try {
      selected = await post('/session/tenant', { tenant_id, mode })
    } catch (error) {
      return notify({ tone: 'bad', text: error instanceof Error ? errorMessage(error) : String(error) })
    }
    if (selected.mode !== MODE) return openInMode(selected.mode, to)
    setRequestTenant(selected.tenant_id)
    // Remove all data of the old tenant.
    queryClient.removeQueries({ predicate: ({ queryKey: [name] }) => name !== SESSION_KEY[0] })
    await queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    await navigate({ to })
  }
}
