// The head of every page: for which tenant, in which colours, and as whom.
import { ActionIcon, Button, Menu, useMantineColorScheme } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import {
  Building2,
  Check,
  ChevronsUpDown,
  CircleUserRound,
  Keyboard,
  LogOut,
  Monitor,
  Moon,
  Sun,
  UserRound,
} from 'lucide-react'
import { post } from '../api.ts'
import { notify } from '../kit/notices.tsx'
import { inWords } from '../kit/statuses.ts'
import { queryClient, SESSION_KEY } from '../queries.ts'
import { useSession } from '../session.tsx'

export function TenantSwitch() {
  const { tenant, tenants, role } = useSession()
  const navigate = useNavigate()

  async function choose(tenant_id: string): Promise<void> {
    try {
      await post('/session/tenant', { tenant_id })
    } catch (error) {
      return notify({ tone: 'bad', text: String(error) })
    }
    // Nothing of the other tenant stays on the page.
    queryClient.removeQueries({ predicate: ({ queryKey: [name] }) => name !== SESSION_KEY[0] })
    await queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    await navigate({ to: '/' })
  }

  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button
          variant="subtle"
          color="gray"
          aria-label={`Tenant: ${tenant?.name ?? 'none'}`}
          leftSection={<Building2 size={14} />}
          rightSection={<ChevronsUpDown size={12} />}
          styles={{ label: { maxWidth: 140, overflow: 'hidden', textOverflow: 'ellipsis' } }}
        >
          {tenant?.name ?? 'No tenant'}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {role !== null && <Menu.Label>Your role here: {role}</Menu.Label>}
        {tenants.map(({ id, name, slug, role: role_there }) => (
          <Menu.Item
            key={id}
            leftSection={id === tenant?.id ? <Check size={14} /> : <span style={{ width: 14 }} />}
            rightSection={<span className="dim">{inWords(role_there)}</span>}
            onClick={() => void choose(id)}
          >
            {name} <span className="dim mono">{slug}</span>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

const SCHEMES = [
  { value: 'auto', title: 'As the system', icon: Monitor },
  { value: 'light', title: 'Light', icon: Sun },
  { value: 'dark', title: 'Dark', icon: Moon },
] as const

export function HeadActions({ openHelp }: { openHelp: () => void }) {
  const { user, version } = useSession()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const navigate = useNavigate()
  const Icon = SCHEMES.find(({ value }) => value === colorScheme)?.icon ?? Monitor

  async function signOut(): Promise<void> {
    try {
      await post('/auth/sign-out', {})
    } catch (error) {
      return notify({ tone: 'bad', text: String(error) })
    }
    await navigate({ to: '/sign-in' })
    queryClient.clear()
  }

  return (
    <>
      <Menu>
        <Menu.Target>
          <ActionIcon aria-label="Colour scheme">
            <Icon size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {SCHEMES.map(({ value, title, icon: Shown }) => (
            <Menu.Item
              key={value}
              leftSection={<Shown size={14} />}
              rightSection={value === colorScheme ? <Check size={14} aria-label="chosen" /> : null}
              onClick={() => setColorScheme(value)}
            >
              {title}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Menu>
        <Menu.Target>
          <ActionIcon aria-label="Account">
            <CircleUserRound size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {user.name}
            <br />
            {user.email}
          </Menu.Label>
          <Menu.Item
            leftSection={<UserRound size={14} />}
            onClick={() => void navigate({ to: '/settings/profile' })}
          >
            Profile
          </Menu.Item>
          <Menu.Item leftSection={<Keyboard size={14} />} onClick={openHelp}>
            Keyboard
          </Menu.Item>
          <Menu.Item leftSection={<LogOut size={14} />} onClick={() => void signOut()}>
            Sign out
          </Menu.Item>
          <Menu.Divider />
          <Menu.Label>Sluice {version}</Menu.Label>
        </Menu.Dropdown>
      </Menu>
    </>
  )
}
