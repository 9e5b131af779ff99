// The link of a verification in test mode: opens the verification, whose page has the button of its person.
import { Button } from '@mantine/core'
import { Navigate } from '@tanstack/react-router'
import { Building2 } from 'lucide-react'
import { SluiceError } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import type { Answers } from '../generated/answers.ts'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { NotFound } from '../kit/NotFound.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { PageSkeleton } from '../kit/Skeleton.tsx'
import { MODE } from '../mode.ts'
import { useAnswer } from '../queries.ts'
import { useSession } from '../session.tsx'
import { useChooseTenant } from '../shell/tenant.ts'

type LinkedVerification = Answers['GET /sandbox/kyc']

const TITLE = 'Verification'
const PARENT = { to: '/sandbox/verifications', title: 'Verifications · Sandbox' }

export function SandboxVerificationLinkPage() {
  const session = usePathParam('session')
  const { tenant } = useSession()
  const { data, error, refetch } = useAnswer<LinkedVerification>('/sandbox/kyc', { session })
  if (data !== undefined && data.tenant_id === tenant?.id)
    return <Navigate to="/compliance/$id" params={{ id: data.id }} replace />
  if (data !== undefined) return <OtherTenant of={data} />
  if (error instanceof SluiceError && (error.status === 404 || error.status === 400))
    return (
      <NotFound title="There is no such verification" parent={PARENT}>
        None of your tenants has a verification with this link in test mode.
      </NotFound>
    )
  if (error !== null) return <ErrorPage title={TITLE} parent={PARENT} error={error} retry={refetch} />
  return <PageSkeleton />
}

function OtherTenant({ of: { id, tenant_id, tenant_name } }: { of: LinkedVerification }) {
  const choose = useChooseTenant()
  return (
    <>
      <PageHeader title={TITLE} parent={PARENT} />
      <div className="state">
        <Building2 size={24} strokeWidth={1.5} aria-hidden />
        <h2>This verification belongs to {tenant_name}</h2>
        <p>You view another tenant.</p>
        <div className="state-action">
          <Button onClick={() => void choose(tenant_id, `/compliance/${id}`, MODE)}>
            Open it in {tenant_name}
          </Button>
        </div>
      </div>
    </>
  )
}
