// One's passkeys: they are added, renamed and removed here.
import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { post } from '../../api.ts'
import { useDialogs } from '../../dialogs.ts'
import { askActed, noteActed, type Acted } from '../../kit/Acted.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { wholeList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { invalidate, useAnswer } from '../../queries.ts'
import { WithPassword } from './WithPassword.tsx'

type Passkey = { id: string; name?: string | null; createdAt?: string | null; deviceType?: string }

const LIST = '/auth/passkey/list-user-passkeys'
const nameOf = ({ name }: Passkey) => name || 'Passkey'
const readAgain = () => invalidate(LIST)

const CAN =
  'PublicKeyCredential' in globalThis &&
  'parseCreationOptionsFromJSON' in PublicKeyCredential &&
  globalThis.isSecureContext
/** Browsers know passkeys by the name of a host, never by its number. */
const BY_NUMBER = /^[\d.]+$|^\[/.test(location.hostname)

const columnsOf = (act: (name: 'rename' | 'remove', row: Passkey) => void): TableColumn<Passkey>[] => [
  { title: 'Name', cell: (row) => <strong>{nameOf(row)}</strong>, clip: true },
  {
    title: 'Stored',
    cell: ({ deviceType }) => (deviceType === 'multiDevice' ? 'On all your devices' : 'On one device'),
  },
  { title: 'Added', cell: ({ createdAt }) => <Instant at={createdAt} /> },
  {
    title: '',
    align: 'end',
    cell: (row) => (
      <span className="row-buttons">
        <Button size="compact-xs" aria-label={`Rename ${nameOf(row)}`} onClick={() => act('rename', row)}>
          Rename
        </Button>
        <Button size="compact-xs" aria-label={`Remove ${nameOf(row)}`} onClick={() => act('remove', row)}>
          Remove
        </Button>
      </span>
    ),
  },
]

export function Passkeys() {
  const query = useAnswer<Passkey[]>(LIST)
  const { opening, begin, props } = useDialogs<'add' | 'rename' | 'remove'>()
  const [passkey, setPasskey] = useState<Passkey>()
  const act = (name: 'rename' | 'remove', row: Passkey) => {
    setPasskey(row)
    begin(name)
  }
  return (
    <section>
      <h2>Passkeys</h2>
      <p className="dim">
        A passkey signs you in without a password: with a fingerprint, your face or a security key.
        {BY_NUMBER &&
          ' Passkeys need a host name: open this page as localhost or by its name, not by its IP address.'}
        {!BY_NUMBER && !CAN && ' This browser or this connection does not support passkeys.'}
      </p>
      {(query.data === undefined || query.data.length > 0) && (
        <DataTable
          label="Passkeys"
          list={wholeList(query, query.data)}
          columns={columnsOf(act)}
          rowKey={({ id }) => id}
          paged={false}
          empty={<EmptyState title="No passkeys" />}
        />
      )}
      <Button disabled={BY_NUMBER || !CAN} onClick={() => begin('add')}>
        Add passkey
      </Button>
      <div key={opening}>
        <AddDialog {...props('add')} />
        {passkey && (
          <NameDialog
            {...props('rename')}
            title={`Rename ${nameOf(passkey)}`}
            action="Rename"
            does="Only you see the name."
            name={passkey.name ?? ''}
            done="Passkey renamed."
            act={(name) => askActed('POST', '/auth/passkey/update-passkey', { id: passkey.id, name })}
          />
        )}
        <WithPassword
          {...props('remove')}
          title={`Remove ${passkey ? nameOf(passkey) : 'this passkey'}?`}
          action="Remove"
          tone="bad"
          does="It no longer signs anybody in. Your browser or key may still offer it: remove it there too."
          act={(password) => askActed('POST', '/auth/passkey/delete-passkey', { id: passkey?.id, password })}
          onDone={(asked) => {
            noteActed('Passkey removed.', asked)
            return readAgain()
          }}
        />
      </div>
    </section>
  )
}

function AddDialog(opening: { opened: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  return (
    <WithPassword
      {...opening}
      title="Add a passkey"
      action="Add passkey"
      does="Your browser asks you how to create it."
      ready={name.trim() !== ''}
      act={(password) => addPasskey(name.trim(), password)}
      onDone={(asked) => {
        noteActed('Passkey added.', asked)
        return readAgain()
      }}
    >
      <NameInput value={name} onChange={setName} />
    </WithPassword>
  )
}

function NameDialog({
  name: before,
  done,
  act,
  ...rest
}: {
  opened: boolean
  onClose: () => void
  title: string
  action: string
  does: string
  name: string
  /** What is said then. */
  done: string
  act: (name: string) => Promise<Acted<unknown>>
}) {
  const [name, setName] = useState(before)
  return (
    <ConfirmDialog
      {...rest}
      ready={name.trim() !== ''}
      act={() => act(name.trim())}
      onDone={(asked) => {
        noteActed(done, asked)
        return readAgain()
      }}
    >
      <NameInput value={name} onChange={setName} />
    </ConfirmDialog>
  )
}

function NameInput({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  return (
    <TextInput
      label="Name"
      placeholder="The laptop"
      maxLength={100}
      data-autofocus
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  )
}

async function addPasskey(name: string, password: string): Promise<Acted<unknown>> {
  const options = await post<PublicKeyCredentialCreationOptionsJSON>(
    '/auth/passkey/generate-register-options',
    { password },
  )
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  const credential = await navigator.credentials.create({ publicKey }).catch((error: unknown) => {
    throw new Error(
      error instanceof DOMException && error.name === 'InvalidStateError'
        ? 'This device already has one of your passkeys.'
        : 'No passkey was created.',
      { cause: error },
    )
  })
  if (!(credential instanceof PublicKeyCredential)) throw new Error('No passkey was created.')
  const response = credential.toJSON()
  return await askActed('POST', '/auth/passkey/verify-registration', { response, name, password })
}
