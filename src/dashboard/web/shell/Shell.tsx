// The frame of every signed-in page.
import { ActionIcon, Drawer } from '@mantine/core'
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { Menu as MenuIcon } from 'lucide-react'
import { useEffect, useState } from 'react'
import { onTenantMismatch } from '../api.ts'
import { PageSkeleton } from '../kit/Skeleton.tsx'
import { NoticeRegion, notify } from '../kit/notices.tsx'
import { ErrorState } from '../kit/states.tsx'
import { isSignedOut, SessionProvider, useSession, useSessionQuery } from '../session.tsx'
import { Banners } from './Banners.tsx'
import { ChooseTenant } from './ChooseTenant.tsx'
import { HeaderActions } from './head.tsx'
import { KeyHelp } from './KeyHelp.tsx'
import { useKeys } from './keys.ts'
import { Logo } from './Mark.tsx'
import { Nav } from './Nav.tsx'
import { Palette, PaletteButton } from './Palette.tsx'
import { TenantSwitch } from './TenantSwitch.tsx'

/** Pages without data of a tenant. */
const TENANTLESS_PATHS = /^\/(?:ops|settings\/profile)(?:\/|$)/

/** Renders the page for signed-in users. Other users are redirected to the sign-in page, which leads back. */
export function Shell() {
  const { data: session, error, refetch } = useSessionQuery()
  const { href, pathname } = useLocation()
  const navigate = useNavigate()
  const signed_out = isSignedOut(error)
  useEffect(() => {
    // The address changes before the sign-in page is loaded.
    if (signed_out && pathname !== '/sign-in')
      void navigate({ to: '/sign-in', search: href === '/' ? {} : { to: href }, replace: true })
  }, [signed_out, pathname, href, navigate])
  if (session !== undefined && !signed_out)
    return (
      <SessionProvider value={session}>
        <SignedInShell />
      </SessionProvider>
    )
  if (error !== null && !signed_out) return <ErrorState error={error} retry={refetch} />
  return (
    <div className="shell">
      <div className="shell-sidebar" />
      <div className="shell-main">
        <div className="shell-head" />
        <main className="shell-page">
          <PageSkeleton />
        </main>
      </div>
    </div>
  )
}

function SignedInShell() {
  const [drawer, setDrawer] = useState(false)
  const [palette, setPalette] = useState(false)
  const [help, setHelp] = useState(false)
  const session = useSession()
  const { pathname } = useLocation()
  useEffect(() => onTenantMismatch(notifyTenantMismatch), [])
  useKeys({ openPalette: () => setPalette(true), openHelp: () => setHelp(true) })
  return (
    <div className="shell">
      <a className="skip-link" href="#content">
        Skip to content
      </a>
      <aside className="shell-sidebar" aria-label="Sidebar">
        <Brand />
        <Nav />
      </aside>
      <div className="shell-main">
        <header className="shell-head">
          <ActionIcon className="shell-burger" aria-label="Open navigation" onClick={() => setDrawer(true)}>
            <MenuIcon size={18} />
          </ActionIcon>
          <TenantSwitch />
          <PaletteButton open={() => setPalette(true)} />
          <HeaderActions openHelp={() => setHelp(true)} />
        </header>
        <Banners />
        <main className="shell-page" id="content" tabIndex={-1}>
          {session.tenant === null && !TENANTLESS_PATHS.test(pathname) ? <ChooseTenant /> : <Outlet />}
        </main>
      </div>
      <Drawer
        opened={drawer}
        onClose={() => setDrawer(false)}
        size={260}
        padding="xs"
        title="Sluice"
        closeButtonProps={{ 'aria-label': 'Close navigation' }}
      >
        <Nav onGo={() => setDrawer(false)} />
      </Drawer>
      <Palette opened={palette} close={() => setPalette(false)} />
      <KeyHelp opened={help} close={() => setHelp(false)} />
      <NoticeRegion />
    </div>
  )
}

function notifyTenantMismatch(): void {
  notify({
    tone: 'bad',
    text: 'Another tenant was chosen in another tab, or you no longer have access to this one. Your last request was refused. If it was a retry, the first request may have been done: check this tenant again.',
    act: { title: 'Reload page', run: () => location.reload() },
  })
}

function Brand() {
  return (
    <Link to="/" className="shell-brand" aria-label="Sluice">
      <Logo /> Sluice
    </Link>
  )
}
