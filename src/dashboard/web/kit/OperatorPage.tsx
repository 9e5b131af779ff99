// A page for operators, with data of all tenants.
import type { ReactNode } from 'react'
import { Lock } from 'lucide-react'
import { useSession } from '../session.tsx'
import { PageHeader } from './PageHeader.tsx'

/** Shows `children` to operators. Other users get a message and no data. */
export function OperatorPage({ children }: { children: ReactNode }) {
  if (useSession().is_operator) return children
  return (
    <>
      <PageHeader title="Operations" parent={{ to: '/', title: 'Overview' }} />
      <div className="state" role="alert">
        <Lock size={24} strokeWidth={1.5} aria-hidden />
        <h2>Your role does not include this</h2>
        <p>Only operators of this installation can see this page.</p>
      </div>
    </>
  )
}
