// Links from operators' pages to pages of a tenant, which may have to be selected first.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { useSession } from '../session.tsx'
import { useChooseTenant } from '../shell/tenant.ts'

/** A tenant. `tenant`: its slug, if known. */
type TenantRef = { tenant_id: string; tenant: string | null }

/** A page of a tenant, and the label of its link. */
type TenantPage = { of: TenantRef; to: string; label: string }

/**
 * `open` goes to a page of a tenant. For a tenant that the operator does not belong to, it opens `dialog` first. Render
 * `dialog` outside other dialogs.
 */
export function useTenantPage(): { open: (page: TenantPage) => void; dialog: ReactNode } {
  const [requested, setRequested] = useState<TenantPage>()
  const [opened, setOpened] = useState(false)
  const { tenants } = useSession()
  const choose = useChooseTenant()
  const tenant_name = requested && (requested.of.tenant ?? requested.of.tenant_id)
  return {
    open(page) {
      const { tenant_id } = page.of
      if (tenants.some(({ id, twin_id }) => id === tenant_id || twin_id === tenant_id))
        void choose(tenant_id, page.to)
      else {
        setRequested(page)
        setOpened(true)
      }
    },
    dialog: requested && (
      <ConfirmDialog
        opened={opened}
        onClose={() => setOpened(false)}
        title={`View tenant ${tenant_name}?`}
        action="View tenant"
        effect={`You view ${tenant_name} as an operator, and your access is audited. The banner on each page leads back.`}
        act={() => choose(requested.of.tenant_id, requested.to)}
      />
    ),
  }
}

/**
 * A link to a page of the current tenant, or a button that selects another tenant first. `button`: the label of that
 * button.
 */
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

/** A `TenantPageLink` with its dialog. */
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
