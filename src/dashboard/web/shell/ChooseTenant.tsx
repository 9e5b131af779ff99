// Selects a tenant for a session without one.
import { Button } from '@mantine/core'
import { Building2 } from 'lucide-react'
import { MODE } from '../mode.ts'
import { useSession } from '../session.tsx'
import { useChooseTenant } from './tenant.ts'

export function ChooseTenant() {
  const { tenants, is_operator } = useSession()
  const choose = useChooseTenant()
  return (
    <div className="state">
      <Building2 size={24} strokeWidth={1.5} aria-hidden />
      <h2>{tenants.length > 0 ? 'Choose a tenant' : 'You are not a member of any tenant'}</h2>
      <p>
        {tenants.length > 0
          ? 'You no longer have access to the tenant that you viewed last.'
          : is_operator
            ? 'As an operator you can view any tenant: use the menu above.'
            : 'Ask an owner or admin of a tenant to invite you.'}
      </p>
      {tenants.map(({ id, name }) => (
        <div key={id} className="state-action">
          <Button onClick={() => void choose(id, '/', MODE)}>{name}</Button>
        </div>
      ))}
    </div>
  )
}
