// The dialogs that create a key and show its secret once.
import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { ActResultText, sendAct, type ActResponse } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { CopyField } from '../../kit/CopyField.tsx'
import { invalidate } from '../../queries.ts'
import { SCOPE_DESCRIPTIONS } from '../../scopes.ts'
import { MODE } from '../../mode.ts'
import { useSession } from '../../session.tsx'
import { MAX_NAME_CHARACTERS } from '../../limits.ts'

type KeyWithSecret = Answers['POST /keys']

const UNKNOWN_KEY =
  'It is unknown whether the key was created. Check the list below, and revoke any key that you do not recognize.'

export function CreateKeyDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<string[]>([])
  const [expiry_day, setDay] = useState('')

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
      title={MODE === 'test' ? 'Create a key of test mode' : 'Create a key'}
      action="Create"
      effect={
        MODE === 'test'
          ? 'The key can use the test mode of this tenant within its scopes. It reaches nothing of live mode.'
          : 'The key can use this tenant within its scopes.'
      }
      ready={name.trim() !== '' && scopes.length > 0}
      missing={name.trim() === '' ? 'Enter a name.' : 'Choose at least one scope.'}
      act={() =>
        sendAct<KeyWithSecret>('POST', '/keys', {
          name: name.trim(),
          scopes,
          expires_at: expiry_day === '' ? null : endOfDay(expiry_day),
        })
      }
      unknown={UNKNOWN_KEY}
      onSettled={() => invalidate('/keys')}
      shown_once
      outcome={(result) => <NewKey result={result} />}
    >
      <TextInput
        label="Name"
        description="Where it is used, e.g. the shop's backend."
        maxLength={MAX_NAME_CHARACTERS}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
      <ScopesField value={scopes} onChange={setScopes} />
      <TextInput
        type="date"
        label="Expires"
        description="At the end of that day. Leave empty for a key that does not expire."
        value={expiry_day}
        onChange={(event) => setDay(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

function ScopesField({ value, onChange }: { value: string[]; onChange: (scopes: string[]) => void }) {
  const { key_scopes, role } = useSession()
  return (
    <Checkbox.Group label="Scopes" value={value} onChange={onChange}>
      <div className="inline scopes-choose">
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
        {Object.entries(SCOPE_DESCRIPTIONS).map(([scope, words]) => (
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

const GRACE_PERIODS = [
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
      effect="A new key replaces this key, with the same name, scopes and expiry. Both work until the old one expires."
      act={() => sendAct<KeyWithSecret>('POST', `/keys/${id}/rotate`, { grace_s: Number(grace_s) })}
      unknown={UNKNOWN_KEY}
      onSettled={() => invalidate('/keys')}
      shown_once
      outcome={(result) => <NewKey result={result} />}
    >
      <NativeSelect
        label="The old key still works"
        data={GRACE_PERIODS}
        value={grace_s}
        onChange={(event) => setGrace(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

function NewKey({ result }: { result: ActResponse<KeyWithSecret> }) {
  return (
    <ActResultText of={result}>
      <div className="stack">
        <CopyField label="API key" value={result.data.secret} />
        <p>Copy it now: it is not shown again. We store only a hash of it.</p>
      </div>
    </ActResultText>
  )
}

/** The end of a day in the user's time zone. */
function endOfDay(expiry_day: string): string {
  return new Date(`${expiry_day}T23:59:59`).toISOString()
}
