// Sandbox: the inbox of emails and SMS that test mode kept instead of sending them.
import { Mail, Smartphone } from 'lucide-react'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { CHANNEL_LABELS } from '../messages/channels.ts'
import { SANDBOX_TEXT, SandboxTabs } from '../sandbox/SandboxTabs.tsx'

const INBOX = defineList({
  path: '/sandbox/messages',
  label: 'Inbox',
  filters: [
    { kind: 'choice', name: 'channel', label: 'Channel', labels: CHANNEL_LABELS },
    { kind: 'text', name: 'to', label: 'To', placeholder: 'ada@example.com' },
  ],
  columns: [
    {
      title: 'Message',
      cell: ({ subject, channel }) => (
        <span className="inline" style={{ flexWrap: 'nowrap' }}>
          {channel === 'email' ? <Mail size={14} aria-hidden /> : <Smartphone size={14} aria-hidden />}
          {channel === 'sms' ? 'SMS' : (subject ?? 'Email')}
        </span>
      ),
      clip: true,
    },
    { title: 'To', cell: ({ to }) => to.join(', '), clip: true },
    { title: 'From', cell: ({ from }) => from, clip: true },
    { title: 'Status', cell: ({ status }) => <Status status={status} /> },
    CREATED_COLUMN,
  ],
  key: 'id',
  to: ({ id }) => `/sandbox/messages/${id}`,
  interval_ms: 5_000,
  empty: { title: 'No messages yet', text: 'Emails and SMS of test mode end here. Nobody receives them.' },
})

export function SandboxPage() {
  return (
    <ListPage
      of={INBOX}
      title="Sandbox"
      description={SANDBOX_TEXT}
      frame={(list) => <SandboxTabs active="/sandbox">{list}</SandboxTabs>}
    />
  )
}
