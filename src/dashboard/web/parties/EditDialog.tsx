// The dialog that edits a customer, a recipient or a merchant.
import { Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Answer } from '#sdk/index.ts'
import { actResponse, notifyActDone } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'

/** A field of an update. Required if the API does not accept null. */
export type EditField<Update> = {
  [Name in Exclude<keyof Update & string, 'metadata'>]: {
    name: Name
    label: string
    type?: 'email' | 'url' | 'tel'
  } & (null extends Update[Name] ? { required?: false } : { required: true })
}[Exclude<keyof Update & string, 'metadata'>]

/**
 * Fields with the values of `row`, and its metadata. `send` gets only changed fields; an emptied field is null.
 * `action` is the label of the button: `Save customer`.
 */
export function EditDialog<T extends object, Update extends object>({
  opened,
  onClose,
  title,
  action,
  fields,
  row,
  send,
  onDone,
}: {
  opened: boolean
  onClose: () => void
  title: string
  action: string
  fields: EditField<Update>[]
  row: T & { metadata: unknown }
  send: (changes: Update) => Answer<T>
  onDone: () => unknown
}) {
  const [typed, setTyped] = useState<Record<string, string>>({})
  const close = () => {
    onClose()
    setTyped({})
  }
  const before = (name: string): string => {
    const value = Object.entries(row).find(([key]) => key === name)?.[1]
    return name === METADATA ? JSON.stringify(row.metadata, null, 2) : typeof value === 'string' ? value : ''
  }
  const valueIn = (name: string) => typed[name] ?? before(name)
  const changed = Object.keys(typed).filter((name) => typed[name]?.trim() !== before(name))
  const metadata = parseJson(valueIn(METADATA))
  const complete = fields.every(({ name, required }) => !required || valueIn(name).trim() !== '')
  const valueOf = (name: string) => (name === METADATA ? metadata?.value : typed[name]?.trim() || null)
  const set = (name: string, value: string) => setTyped((now) => ({ ...now, [name]: value }))

  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={title}
      action={action}
      effect="Only what you change is sent. Your webhook endpoints get an event."
      ready={changed.length > 0 && complete && metadata !== undefined}
      act={() =>
        actResponse(send(Object.fromEntries(changed.map((name) => [name, valueOf(name)])) as Update))
      }
      onDone={async (result) => {
        notifyActDone('Saved.', result)
        await onDone()
      }}
    >
      {(errorOf) => (
        <>
          {fields.map(({ name, label, required = false, type = 'text' }, at) => (
            <TextInput
              key={name}
              label={label}
              type={type}
              required={required}
              value={valueIn(name)}
              error={errorOf(name)}
              onChange={(event) => set(name, event.currentTarget.value)}
              data-autofocus={at === 0 || undefined}
            />
          ))}
          <MetadataField
            value={valueIn(METADATA)}
            error={metadata === undefined ? 'This is not valid JSON.' : errorOf(METADATA)}
            onChange={(text) => set(METADATA, text)}
          />
        </>
      )}
    </ConfirmDialog>
  )
}

function MetadataField({
  value,
  error,
  onChange,
}: {
  value: string
  error: string | undefined
  onChange: (text: string) => void
}) {
  return (
    <Textarea
      label="Metadata"
      description="Any JSON, up to 16 KiB."
      classNames={{ input: 'mono' }}
      rows={4}
      value={value}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  )
}

const METADATA = 'metadata'

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return undefined
  }
}
