// Messages: the list of emails and SMS.
import { Button } from '@mantine/core'
import { Mail, Smartphone } from 'lucide-react'
import { useMemo } from 'react'
import type { Message } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { MessagesTabs } from '../messages/MessagesTabs.tsx'
import { SendEmailDialog, SendSmsDialog } from '../messages/SendDialogs.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'

/** The channels, for filters and fields. */
const CHANNELS = [
  { value: 'email', label: 'Email' },
  { value: 'sms', label: 'SMS' },
]
const STATUSES = [
  'scheduled',
  'queued',
  'sending',
  'sent',
  'delivered',
  'undelivered',
  'failed',
  'unknown',
  'suppressed',
  'canceled',
  'received',
]
const FIELDS: FilterField[] = [
  { kind: 'select', name: 'channel', label: 'Channel', options: CHANNELS },
  { kind: 'select', name: 'status', label: 'Status', options: STATUSES },
  { kind: 'text', name: 'to', label: 'To', placeholder: 'ada@example.com' },
  { kind: 'text', name: 'from', label: 'From', placeholder: '+14155552671' },
  { kind: 'text', name: 'tag', label: 'Tag' },
  { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
]

/** Only of an SMS that somebody sent: all others are from ourselves. */
const fromOf = ({ status, from }: Message) => (status === 'received' ? from : null)
const toOf = ({ to }: Message) => (Array.isArray(to) ? to : [to])

const COLUMNS: TableColumn<Message>[] = [
  {
    title: 'Message',
    cell: ({ subject, channel }) => (
      <span className="line" style={{ flexWrap: 'nowrap' }}>
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
const FILE_COLUMNS: TableColumn<Message>[] = [
  ...COLUMNS,
  { title: 'Channel', cell: () => null, csv: ({ channel }) => channel },
]

export function MessagesPage() {
  const may_email = useMay('sendEmail')
  const may_sms = useMay('sendSms')
  const { opening, begin, props } = useDialogs<'email' | 'sms'>()
  const list = useList<Message>(
    '/v1/messages',
    ['channel', 'status', 'to', 'from', 'tag', 'created_from', 'created_to'],
    { every_ms: 10_000 },
  )
  const curl = useCurl('/v1/messages/email', {
    idempotency_key: 'welcome-1',
    to: ['ada@example.com'],
    subject: 'Welcome',
    text: 'It is good to have you.',
  })
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
    <>
      <PageHeader
        title="Messages"
        description="Emails and SMS, and whether each arrived."
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
      />
      <MessagesTabs shown="/messages">
        <Filters fields={FIELDS} end={<CsvExport list={list} columns={FILE_COLUMNS} name="messages.csv" />} />
        <DataTable
          label="Messages"
          list={list}
          columns={COLUMNS}
          rowKey={({ id }) => id}
          to={({ id }) => `/messages/${id}`}
          empty={
            <EmptyState title="No messages yet" curl={curl}>
              Send a message from your program, or with this command.
            </EmptyState>
          }
        />
      </MessagesTabs>
      <div key={opening}>
        <SendEmailDialog {...props('email')} />
        <SendSmsDialog {...props('sms')} />
      </div>
    </>
  )
}
