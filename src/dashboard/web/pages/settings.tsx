// Settings: tabs, each with its own URL.
import { Tabs } from '@mantine/core'
import { Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { PageHeader } from '../kit/PageHeader.tsx'

const SETTINGS = [
  { tab: 'api-keys', title: 'API Keys' },
  { tab: 'members', title: 'Members' },
  { tab: 'email', title: 'Email' },
  { tab: 'profile', title: 'Profile' },
  { tab: 'audit', title: 'Audit' },
]

export function SettingsPage() {
  const { pathname } = useLocation()
  const navigate = useNavigate()
  const shown = SETTINGS.find(({ tab }) => pathname.startsWith(`/settings/${tab}`)) ?? SETTINGS[0]!
  return (
    <>
      <PageHeader title={`${shown.title} · Settings`} heading="Settings" />
      <Tabs value={shown.tab} onChange={(tab) => void navigate({ to: `/settings/${tab}` })}>
        <Tabs.List mb="md">
          {SETTINGS.map(({ tab, title }) => (
            <Tabs.Tab key={tab} value={tab}>
              {title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {SETTINGS.map(({ tab }) => (
          <Tabs.Panel key={tab} value={tab}>
            <Outlet />
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  )
}
