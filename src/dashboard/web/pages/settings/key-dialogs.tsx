// The dialogs that end in a new key, which is shown once.
import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { ActedOutcome, askActed, type Acted } from '../../kit/Acted.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { CopyField } from '../../kit/CopyField.tsx'
import { invalidate } from '../../queries.ts'
import { SCOPE_WORDS } from '../../scopes.ts'
import { useSession } from '../../session.tsx'
import { LONGEST_NAME } from '../../limits.ts'

type WithSecret = Answers['POST /keys']

const UNKNOWN_KEY =
  'It is not known whether the key was created. Check the list below, and revoke any key that you do not recognize.'

export function CreateKeyDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<string[]>([])
  const [day, setDay] = useState('')

  function close(): void {
    onClose()
    setName('')
    setScopes([])
    setDay('')
  }

  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title="Create a key"
      action="Create"
      does="It acts for this tenant, within its scopes."
      ready={name.trim() !== '' && scopes.length > 0}
      missing={name.trim() === '' ? 'It needs a name.' : 'It needs at least one scope.'}
      act={() =>
        askActed<WithSecret>('POST', '/keys', {
          name: name.trim(),
          scopes,
          expires_at: day === '' ? null : endOfDay(day),
        })
      }
      unknown={UNKNOWN_KEY}
      onSettled={() => invalidate('/keys')}
      shown_once
      outcome={(made) => <NewKey made={made} />}
    >
      <TextInput
        label="Name"
        description="Where it is used, e.g. the shop's backend."
        maxLength={LONGEST_NAME}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
      <ScopesField value={scopes} onChange={setScopes} />
      <TextInput
        type="date"
        label="Expires"
        description="At the end of that day. Leave empty for a key that does not expire."
        value={day}
        onChange={(event) => setDay(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

function ScopesField({ value, onChange }: { value: string[]; onChange: (scopes: string[]) => void }) {
  const { key_scopes, role } = useSession()
  return (
    <Checkbox.Group label="Scopes" value={value} onChange={onChange}>
      <div className="line scopes-choose">
        <Button size="compact-xs" onClick={() => onChange(key_scopes)}>
          All
        </Button>
        <Button
          size="compact-xs"
          onClick={() => onChange(key_scopes.filter((scope) => scope.endsWith(':read')))}
        >
          Read only
        </Button>
        <Button size="compact-xs" onClick={() => onChange([])}>
          None
        </Button>
      </div>
      <div className="scopes">
        {Object.entries(SCOPE_WORDS).map(([scope, words]) => (
          <Checkbox
            key={scope}
            value={scope}
            label={scope}
            description={
              key_scopes.includes(scope)
                ? words
                : `${words}; your role, ${role}, may not do all of this, so you cannot grant it`
            }
            disabled={!key_scopes.includes(scope)}
          />
        ))}
      </div>
    </Checkbox.Group>
  )
}

const GRACES = [
  { value: '0', label: 'Not at all' },
  { value: '3600', label: 'For an hour' },
  { value: '86400', label: 'For a day' },
  { value: '604800', label: 'For a week' },
]

export function RotateKeyDialog({
  opened,
  onClose,
  id,
  name,
}: {
  opened: boolean
  onClose: () => void
  id: string
  name: string
}) {
  const [grace_s, setGrace] = useState('86400')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Rotate ${name}?`}
      action="Rotate"
      does="A new key replaces it, with the same name, scopes and expiry. Both work until the old one expires."
      act={() => askActed<WithSecret>('POST', `/keys/${id}/rotate`, { grace_s: Number(grace_s) })}
      unknown={UNKNOWN_KEY}
      onSettled={() => invalidate('/keys')}
      shown_once
      outcome={(made) => <NewKey made={made} />}
    >
      <NativeSelect
        label="The old key still works"
        data={GRACES}
        value={grace_s}
        onChange={(event) => setGrace(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

function NewKey({ made }: { made: Acted<WithSecret> }) {
  return (
    <ActedOutcome of={made}>
      <div className="stack">
        <CopyField label="API key" value={made.data.secret} />
        <p>Copy it now: it is not shown again. We store only a hash of it.</p>
      </div>
    </ActedOutcome>
  )
}

/** The end of a day where the reader is. */
function endOfDay(day: string): string {
  return new Date(`${day}T23:59:59`).toISOString()
}
