// A page for operators, with data of all tenants. It has no mode: its address is that of live mode.
import { useLocation } from '@tanstack/react-router'
import { useEffect, type ReactNode } from 'react'
import { Lock } from 'lucide-react'
import { MODE, openInMode } from '../mode.ts'
import { useSession } from '../session.tsx'
import { PageHeader } from './PageHeader.tsx'
import { PageSkeleton } from './Skeleton.tsx'

/** Shows `children` to operators. Other users get a message and no data. */
export function OperatorPage({ children }: { children: ReactNode }) {
  const { href } = useLocation()
  const { is_operator } = useSession()
  useEffect(() => {
    if (MODE === 'test') openInMode('live', href)
  }, [href])
  if (MODE === 'test') return <PageSkeleton />
  if (is_operator) return children
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
