// The way from a page of operators to a page of a tenant, which may have to be chosen first.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { useSession } from '../session.tsx'
import { useChooseTenant } from '../shell/tenant.ts'

/** `tenant`: the slug, where it is known. */
type TenantRef = { tenant_id: string; tenant: string | null }

/** Where a link leads, and what it says. */
type TenantPage = { of: TenantRef; to: string; label: string }

/**
 * `open` shows a page of a tenant, and asks first where an operator looks at a tenant of others; that `dialog` stands
 * in the page beside other dialogs, not within one.
 */
export function useTenantPage(): { open: (page: TenantPage) => void; dialog: ReactNode } {
  const [requested, setRequested] = useState<TenantPage>()
  const [opened, setOpened] = useState(false)
  const { tenants } = useSession()
  const choose = useChooseTenant()
  const tenant_name = requested && (requested.of.tenant ?? requested.of.tenant_id)
  return {
    open(page) {
      if (tenants.some(({ id }) => id === page.of.tenant_id)) void choose(page.of.tenant_id, page.to)
      else {
        setRequested(page)
        setOpened(true)
      }
    },
    dialog: requested && (
      <ConfirmDialog
        opened={opened}
        onClose={() => setOpened(false)}
        title={`Look at tenant ${tenant_name}?`}
        action="Look at tenant"
        effect={`You look at ${tenant_name} as an operator, and what you read is recorded. The banner on each page leads back.`}
        act={() => choose(requested.of.tenant_id, requested.to)}
      />
    ),
  }
}

/** A link to a page of a tenant, or the button that chooses the tenant first. `button`: what that one says. */
export function TenantPageLink({
  page,
  open,
  button = page.label,
}: {
  page: TenantPage
  open: (page: TenantPage) => void
  button?: string
}) {
  const { tenant } = useSession()
  const { of, to, label } = page
  if (tenant?.id === of.tenant_id) return <Link to={to}>{label}</Link>
  return (
    <Button size="compact-xs" onClick={() => open(page)}>
      {button}
    </Button>
  )
}

/** The same with its dialog. */
export function TenantLink(page: TenantPage) {
  const { open, dialog } = useTenantPage()
  return (
    <>
      <TenantPageLink
        page={page}
        open={open}
        button={`${page.label} in ${page.of.tenant ?? page.of.tenant_id}`}
      />
      {dialog}
    </>
  )
}
