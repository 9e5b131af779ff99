// Lists, adds, renames and removes the user's passkeys.
import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { post } from '../../api.ts'
import { useDialogs } from '../../dialogs.ts'
import { sendAct, notifyActDone, type ActResponse } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { invalidate, useAnswer } from '../../queries.ts'
import { WithPassword } from './WithPassword.tsx'

type Passkey = { id: string; name?: string | null; createdAt?: string | null; deviceType?: string }

const LIST = '/auth/passkey/list-user-passkeys'
const nameOf = ({ name }: Passkey) => name || 'Passkey'
const refetchPasskeys = () => invalidate(LIST)

const SUPPORTS_PASSKEYS =
  'PublicKeyCredential' in globalThis &&
  'parseCreationOptionsFromJSON' in PublicKeyCredential &&
  globalThis.isSecureContext
/** Browsers support passkeys for host names only, not for IP addresses. */
const OPENED_BY_IP = /^[\d.]+$|^\[/.test(location.hostname)

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
        {OPENED_BY_IP &&
          ' Passkeys need a host name: open this page as localhost or by its name, not by its IP address.'}
        {!OPENED_BY_IP && !SUPPORTS_PASSKEYS && ' This browser or this connection does not support passkeys.'}
      </p>
      {(query.data === undefined || query.data.length > 0) && (
        <DataTable
          label="Passkeys"
          list={singlePageList(query, query.data)}
          columns={columnsOf(act)}
          rowKey={({ id }) => id}
          paged={false}
          empty={<EmptyState title="No passkeys" />}
        />
      )}
      <Button disabled={OPENED_BY_IP || !SUPPORTS_PASSKEYS} onClick={() => begin('add')}>
        Add passkey
      </Button>
      <div key={opening}>
        <AddDialog {...props('add')} />
        {passkey && (
          <NameDialog
            {...props('rename')}
            title={`Rename ${nameOf(passkey)}`}
            action="Rename"
            effect="Only you see the name."
            name={passkey.name ?? ''}
            notice="Passkey renamed."
            act={(name) => sendAct('POST', '/auth/passkey/update-passkey', { id: passkey.id, name })}
          />
        )}
        <WithPassword
          {...props('remove')}
          title={`Remove ${passkey ? nameOf(passkey) : 'this passkey'}?`}
          action="Remove"
          tone="bad"
          effect="The passkey can no longer be used to sign in. Your browser or security key may still offer it: remove it there too."
          act={(password) => sendAct('POST', '/auth/passkey/delete-passkey', { id: passkey?.id, password })}
          onDone={(result) => {
            notifyActDone('Passkey removed.', result)
            return refetchPasskeys()
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
      effect="Your browser asks you how to create it."
      ready={name.trim() !== ''}
      act={(password) => addPasskey(name.trim(), password)}
      onDone={(result) => {
        notifyActDone('Passkey added.', result)
        return refetchPasskeys()
      }}
    >
      <NameInput value={name} onChange={setName} />
    </WithPassword>
  )
}

function NameDialog({
  name: before,
  notice,
  act,
  ...rest
}: {
  opened: boolean
  onClose: () => void
  title: string
  action: string
  effect: string
  name: string
  /** The text that is shown after the act. */
  notice: string
  act: (name: string) => Promise<ActResponse<unknown>>
}) {
  const [name, setName] = useState(before)
  return (
    <ConfirmDialog
      {...rest}
      ready={name.trim() !== ''}
      act={() => act(name.trim())}
      onDone={(result) => {
        notifyActDone(notice, result)
        return refetchPasskeys()
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

async function addPasskey(name: string, password: string): Promise<ActResponse<unknown>> {
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
  return await sendAct('POST', '/auth/passkey/verify-registration', { response, name, password })
}
