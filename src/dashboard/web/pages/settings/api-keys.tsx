// Settings, API Keys: lists, creates, rotates and revokes the keys of the tenant.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { sendAct, ActResultText } from '../../kit/ActResult.tsx'
import { CREATED_COLUMN } from '../../kit/columns.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Instant } from '../../kit/Instant.tsx'
import { ListView } from '../../kit/ListPage.tsx'
import { Status } from '../../kit/Status.tsx'
import { MODE } from '../../mode.ts'
import { invalidate } from '../../queries.ts'
import { useMay, useRolesThatMay } from '../../session.tsx'
import { usePaletteActs } from '../../shell/acts.ts'
import { CreateKeyDialog, RotateKeyDialog } from './key-dialogs.tsx'

const KEY_PREFIX = MODE === 'test' ? 'sk_test_' : 'sk_live_'

type KeyRow = Answers['GET /keys'][number]

const KEYS = defineList({
  path: '/keys',
  label: 'API keys',
  columns: [
    { title: 'Name', cell: ({ name }) => <strong>{name}</strong>, clip: true },
    {
      title: 'Key',
      cell: ({ last_four }) => (
        <span className="mono nowrap">
          {KEY_PREFIX}…{last_four}
        </span>
      ),
    },
    { title: 'Status', cell: (row) => <Status status={keyStatus(row)} /> },
    {
      title: 'Scopes',
      cell: ({ scopes }) => <span title={scopes.join(', ')}>{scopes.length}</span>,
      align: 'end',
    },
    { title: 'Last used', cell: ({ last_used_at }) => <Instant at={last_used_at} none="never" /> },
    { title: 'Expires', cell: ({ expires_at }) => <Instant at={expires_at} none="never" /> },
    CREATED_COLUMN,
  ],
  key: 'id',
  paged: false,
  empty: { title: 'No keys yet', text: 'A key lets a program use this tenant.' },
})

export function ApiKeysTab() {
  const may_manage = useMay('keys.manage')
  const who_may = useRolesThatMay('keys.manage')
  const [open, setOpen] = useState<'create' | 'rotate' | 'revoke'>()
  // The key of the open dialog, kept while the dialog closes.
  const [key, setKey] = useState<KeyRow>()
  const begin = (act: 'rotate' | 'revoke', row: KeyRow) => {
    setKey(row)
    setOpen(act)
  }
  const dialog = (act: typeof open) => ({ opened: open === act, onClose: () => setOpen(undefined) })
  usePaletteActs(
    useMemo(() => (may_manage ? [{ title: 'Create key', run: () => setOpen('create') }] : []), [may_manage]),
  )
  return (
    <>
      <div className="filters">
        <p className="dim">
          {may_manage
            ? `Programs authenticate with API keys. A key can do only what its scopes allow${MODE === 'test' ? ', and a key of test mode moves no money' : ''}.`
            : `Only an ${who_may} can create keys.`}
        </p>
        {may_manage && (
          <div className="filters-end">
            <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen('create')}>
              Create key
            </Button>
          </div>
        )}
      </div>
      <ListView
        of={KEYS}
        row_acts={(row) =>
          may_manage &&
          keyStatus(row) === 'active' && (
            <span className="row-buttons">
              <Button size="compact-xs" onClick={() => begin('rotate', row)}>
                Rotate
              </Button>
              <Button size="compact-xs" onClick={() => begin('revoke', row)}>
                Revoke
              </Button>
            </span>
          )
        }
      />
      <CreateKeyDialog {...dialog('create')} />
      <RotateKeyDialog {...dialog('rotate')} id={key?.id ?? ''} name={key?.name ?? 'this key'} />
      <RevokeKeyDialog {...dialog('revoke')} of={key} />
    </>
  )
}

function RevokeKeyDialog({
  of: key,
  ...dialog
}: {
  of: KeyRow | undefined
  opened: boolean
  onClose: () => void
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title={`Revoke ${key?.name ?? 'this key'}?`}
      action="Revoke"
      tone="bad"
      effect={
        <>
          Requests with the key that ends in <span className="mono">{key?.last_four}</span> are refused from
          now on. This cannot be undone.
        </>
      }
      act={() => sendAct('POST', `/keys/${key?.id ?? ''}/revoke`, {})}
      onDone={() => invalidate('/keys')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {key?.name ?? 'The key'} is revoked.
        </ActResultText>
      )}
    />
  )
}

function keyStatus({ revoked_at, expires_at }: KeyRow): string {
  if (revoked_at !== null) return 'revoked'
  return expires_at !== null && Date.parse(expires_at) <= Date.now() ? 'expired' : 'active'
}
