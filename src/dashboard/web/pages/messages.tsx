// Messages: the list of emails and SMS.
import { Button } from '@mantine/core'
import { Mail, Smartphone } from 'lucide-react'
import { useMemo } from 'react'
import type { Message } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { CHANNEL_LABELS } from '../messages/channels.ts'
import { MessagesTabs } from '../messages/MessagesTabs.tsx'
import { SendEmailDialog, SendSmsDialog } from '../messages/SendDialogs.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'

/** The sender of a received SMS. All other messages are from the tenant. */
const fromOf = ({ status, from }: Message) => (status === 'received' ? from : null)
const toOf = ({ to }: Message) => (Array.isArray(to) ? to : [to])

const COLUMNS: TableColumn<Message>[] = [
  {
    title: 'Message',
    cell: ({ subject, channel }) => (
      <span className="inline" style={{ flexWrap: 'nowrap' }}>
        {channel === 'email' ? <Mail size={14} aria-hidden /> : <Smartphone size={14} aria-hidden />}
        {channel === 'sms' ? 'SMS' : (subject ?? 'Email')}
      </span>
    ),
    clip: true,
    csv: ({ subject }) => subject,
  },
  {
    title: 'From',
    cell: (message) => fromOf(message) ?? '–',
    clip: true,
    csv: ({ from }) => from,
  },
  {
    title: 'To',
    cell: (message) => {
      const [first, ...others] = toOf(message)
      return others.length === 0 ? first : `${first ?? ''} and ${others.length} more`
    },
    clip: true,
    csv: (message) => toOf(message).join(', '),
  },
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Failure',
    cell: ({ failure }) => failure?.message ?? <span className="dim">–</span>,
    clip: true,
    csv: ({ failure }) => failure?.code,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]

const MESSAGES = defineList({
  path: '/v1/messages',
  label: 'Messages',
  filters: [
    { kind: 'choice', name: 'channel', label: 'Channel', labels: CHANNEL_LABELS },
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'text', name: 'to', label: 'To', placeholder: 'ada@example.com' },
    { kind: 'text', name: 'from', label: 'From', placeholder: '+14155552671' },
    { kind: 'text', name: 'tag', label: 'Tag' },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
  ],
  columns: COLUMNS,
  file: 'messages.csv',
  file_columns: [...COLUMNS, { title: 'Channel', cell: () => null, csv: ({ channel }) => channel }],
  key: 'id',
  to: ({ id }) => `/messages/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No messages yet',
    text: 'Send a message from your program, or with this command.',
    curl: curlOf('/v1/messages/email', {
      idempotency_key: 'welcome-1',
      to: ['ada@example.com'],
      subject: 'Welcome',
      text: 'It is good to have you.',
    }),
  },
})

export function MessagesPage() {
  const may_email = useMay('sendEmail')
  const may_sms = useMay('sendSms')
  const { opening, begin, props } = useDialogs<'email' | 'sms'>()
  usePaletteActs(
    useMemo(
      () => [
        ...(may_email ? [{ title: 'Send email', run: () => begin('email') }] : []),
        ...(may_sms ? [{ title: 'Send SMS', run: () => begin('sms') }] : []),
      ],
      [may_email, may_sms, begin],
    ),
  )
  return (
    <ListPage
      of={MESSAGES}
      title="Messages"
      description="Emails and SMS, and their delivery status."
      actions={
        <>
          {may_sms && <Button onClick={() => begin('sms')}>Send SMS</Button>}
          {may_email && (
            <Button variant="filled" onClick={() => begin('email')}>
              Send email
            </Button>
          )}
        </>
      }
      frame={(list) => <MessagesTabs active="/messages">{list}</MessagesTabs>}
    >
      <div key={opening}>
        <SendEmailDialog {...props('email')} />
        <SendSmsDialog {...props('sms')} />
      </div>
    </ListPage>
  )
}
