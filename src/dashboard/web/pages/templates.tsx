// Message templates: the list, and the dialog that creates a template.
import { Button, NativeSelect, Textarea, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import type { Channel, MessageTemplate } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { actResponse, notifyActDone } from '../kit/ActResult.tsx'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { Instant } from '../kit/Instant.tsx'
import { ListPage } from '../kit/ListPage.tsx'
import { CHANNELS, CHANNEL_LABELS } from '../messages/channels.ts'
import { MessagesTabs } from '../messages/MessagesTabs.tsx'
import { invalidate } from '../queries.ts'
import { useMay } from '../session.tsx'

const COLUMNS: TableColumn<MessageTemplate>[] = [
  { title: 'Name', cell: ({ name }) => <span className="mono">{name}</span>, clip: true },
  { title: 'Channel', cell: ({ channel }) => CHANNEL_LABELS[channel] },
  ID_COLUMN,
  { title: 'Changed', cell: ({ updated_at }) => <Instant at={updated_at} /> },
  CREATED_COLUMN,
]

const TEMPLATES = defineList({
  path: '/v1/messages/templates',
  label: 'Templates',
  columns: COLUMNS,
  key: 'id',
  to: ({ id }) => `/messages/templates/${id}`,
  empty: {
    title: 'No templates yet',
    text: 'Create a template here, or with this command.',
    curl: curlOf('/v1/messages/templates', {
      name: 'welcome',
      channel: 'email',
      subject: 'Welcome, {{ name }}',
      text: 'It is good to have you, {{ name }}.',
    }),
  },
})

export function TemplatesPage() {
  const may_create = useMay('createMessageTemplate')
  const { opening, begin, props } = useDialogs<'create'>()
  const create = may_create && (
    <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => begin('create')}>
      Create template
    </Button>
  )
  return (
    <ListPage
      of={TEMPLATES}
      title="Templates"
      description="Texts with variables that each message fills in."
      actions={create}
      empty_action={create}
      frame={(list) => <MessagesTabs active="/messages/templates">{list}</MessagesTabs>}
    >
      <CreateTemplateDialog key={opening} {...props('create')} />
    </ListPage>
  )
}

function CreateTemplateDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [channel, setChannel] = useState<Channel>('email')
  const [subject, setSubject] = useState('')
  const [text, setText] = useState('')
  const ready = name.trim() !== '' && text !== '' && (channel === 'sms' || subject !== '')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Create a template"
      action="Create template"
      effect="Write variables in double braces: {{ name }}."
      ready={ready}
      act={(idempotency_key) => {
        const texts = channel === 'sms' ? { body: text } : { subject, text }
        return actResponse(
          sluice.messages.templates.create({ name: name.trim(), channel, ...texts }, { idempotency_key }),
        )
      }}
      onDone={async (result) => {
        notifyActDone('Template created.', result)
        await invalidate('/v1/messages/templates')
        await navigate({ to: `/messages/templates/${result.data.id}` })
      }}
    >
      <TextInput
        label="Name"
        description="Lower-case letters, digits, _ and -."
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <NativeSelect
        label="Channel"
        value={channel}
        onChange={(event) => setChannel(event.currentTarget.value === 'sms' ? 'sms' : 'email')}
        data={CHANNELS}
      />
      {channel === 'email' && (
        <TextInput
          label="Subject"
          value={subject}
          onChange={(event) => setSubject(event.currentTarget.value)}
        />
      )}
      <Textarea
        label="Text"
        autosize
        minRows={4}
        maxRows={12}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}
