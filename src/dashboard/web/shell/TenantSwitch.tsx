// Shows the current tenant and selects another: any of the user's tenants, for operators any tenant.
import { Button, Menu, Modal, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { Building2, Check, ChevronsUpDown, Eye, Search } from 'lucide-react'
import { useState } from 'react'
import { Skeleton } from '../kit/Skeleton.tsx'
import { ErrorState } from '../kit/states.tsx'
import { humanize } from '../kit/statuses.ts'
import type { TenantRow } from '../operations/shapes.ts'
import { MODE } from '../mode.ts'
import { useAnswer } from '../queries.ts'
import { useSession } from '../session.tsx'
import { useChooseTenant } from './tenant.ts'

export function TenantSwitch() {
  const { tenant, tenants, role, is_operator } = useSession()
  const choose = useChooseTenant()
  const [searching, setSearching] = useState(false)
  return (
    <>
      <Menu position="bottom-start">
        <Menu.Target>
          <Button
            variant="subtle"
            color="gray"
            aria-label={tenant === null ? 'No tenant' : `Tenant: ${tenant.name}`}
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
              leftSection={id === tenant?.live_id ? <Check size={14} /> : <span style={{ width: 14 }} />}
              rightSection={<span className="dim">{humanize(role_there)}</span>}
              onClick={() => void choose(id, '/', MODE)}
            >
              {name} <span className="dim mono">{slug}</span>
            </Menu.Item>
          ))}
          {is_operator && (
            <>
              {tenants.length > 0 && <Menu.Divider />}
              <Menu.Item leftSection={<Eye size={14} />} onClick={() => setSearching(true)}>
                View any tenant
              </Menu.Item>
            </>
          )}
        </Menu.Dropdown>
      </Menu>
      <Modal opened={searching} onClose={() => setSearching(false)} title="View any tenant" size="md">
        <TenantSearch
          choose={(id) => {
            setSearching(false)
            void choose(id, '/', MODE)
          }}
        />
      </Modal>
    </>
  )
}

function TenantSearch({ choose }: { choose: (id: string) => void }) {
  const { tenant } = useSession()
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text.trim(), 150)
  const { data, error, refetch } = useAnswer<TenantRow[]>('/ops/tenants', { search })
  return (
    <div className="stack">
      <p className="dim">You view the tenant as an operator. Each page that you open is audited.</p>
      <TextInput
        type="search"
        label="Search tenants"
        placeholder="Name, slug or id"
        data-autofocus
        leftSection={<Search size={14} />}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {error !== null && data === undefined && <ErrorState error={error} retry={refetch} />}
      {data === undefined && error === null && <Skeleton width="80%" height={14} />}
      {data?.length === 0 && <p className="dim">No tenant found.</p>}
      <ul className="tenant-list" aria-label="Tenants">
        {data?.map(({ id, name, slug }) => (
          <li key={id}>
            <Button
              fullWidth
              variant="subtle"
              color="gray"
              justify="flex-start"
              disabled={id === tenant?.live_id}
              onClick={() => choose(id)}
            >
              {name}&nbsp;<span className="dim mono">{slug}</span>
            </Button>
          </li>
        ))}
      </ul>
    </div>
  )
}
