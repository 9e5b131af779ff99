// Suppressions: addresses and numbers that get nothing any more.
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import type { Channel, Suppression } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { acted, ActedOutcome } from '../kit/Acted.tsx'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { inWords } from '../kit/statuses.ts'
import { MessagesTabs } from '../messages/MessagesTabs.tsx'
import { invalidate } from '../queries.ts'
import { useMay } from '../session.tsx'

const CHANNELS = [
  { value: 'email', label: 'Email' },
  { value: 'sms', label: 'SMS' },
]
const FIELDS: FilterField[] = [
  { kind: 'select', name: 'channel', label: 'Channel', options: CHANNELS },
  {
    kind: 'select',
    name: 'reason',
    label: 'Reason',
    options: ['hard_bounce', 'complaint', 'opt_out', 'manual'],
  },
  { kind: 'text', name: 'address', label: 'Address' },
]

export function SuppressionsPage() {
  const may_add = useMay('createSuppression')
  const may_remove = useMay('deleteSuppression')
  const { opening, begin, props } = useDialogs<'add' | 'remove'>()
  const [removed, setRemoved] = useState<Suppression>()
  const list = useList<Suppression>('/v1/messages/suppressions', ['channel', 'reason', 'address'])
  const add = may_add && (
    <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => begin('add')}>
      Add suppression
    </Button>
  )
  const columns: TableColumn<Suppression>[] = [
    {
      title: 'Address',
      cell: ({ address }) => <strong>{address}</strong>,
      clip: true,
      csv: ({ address }) => address,
    },
    {
      title: 'Channel',
      cell: ({ channel }) => (channel === 'sms' ? 'SMS' : 'Email'),
      csv: ({ channel }) => channel,
    },
    { title: 'Reason', cell: ({ reason }) => inWords(reason), csv: ({ reason }) => reason },
    {
      title: 'Cause',
      cell: ({ message_id }) =>
        message_id === null ? (
          <span className="dim">–</span>
        ) : (
          <Link to={`/messages/${message_id}`}>A message</Link>
        ),
      csv: ({ message_id }) => message_id,
    },
    CREATED_COLUMN,
    {
      title: '',
      align: 'end',
      cell: (row) =>
        may_remove && (
          <Button
            size="compact-xs"
            aria-label={`Remove ${row.address}`}
            onClick={() => {
              setRemoved(row)
              begin('remove')
            }}
          >
            Remove
          </Button>
        ),
    },
  ]
  return (
    <>
      <PageHeader
        title="Suppressions"
        description="Addresses and numbers that get no more messages: they bounced, complained, opted out or were added by hand."
        actions={add}
      />
      <MessagesTabs shown="/messages/suppressions">
        <Filters fields={FIELDS} end={<CsvExport list={list} columns={columns} name="suppressions.csv" />} />
        <DataTable
          label="Suppressions"
          list={list}
          columns={columns}
          rowKey={({ id }) => id}
          empty={
            <EmptyState title="No suppressions" action={add}>
              Nobody has bounced, complained or opted out.
            </EmptyState>
          }
        />
      </MessagesTabs>
      <div key={opening}>
        <AddDialog {...props('add')} />
        <ConfirmDialog
          {...props('remove')}
          title={`Remove ${removed?.address ?? 'this suppression'}?`}
          action="Remove"
          tone="bad"
          does={
            removed?.reason === 'manual'
              ? 'Messages reach this address again.'
              : 'Messages reach this address again, though it bounced, complained or opted out before. Make sure that its owner wants this.'
          }
          act={() => acted(sluice.messages.suppressions.delete(removed?.id ?? ''))}
          onDone={() => invalidate('/v1/messages/suppressions')}
          outcome={(asked) => (
            <ActedOutcome of={asked} also_accepted>
              It is removed.
            </ActedOutcome>
          )}
        />
      </div>
    </>
  )
}

function AddDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [channel, setChannel] = useState<Channel>('email')
  const [address, setAddress] = useState('')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Add a suppression"
      action="Add suppression"
      does="Nothing more is sent there, including messages that were accepted but not sent yet."
      ready={address.trim() !== ''}
      act={(idempotency_key) =>
        acted(sluice.messages.suppressions.create({ channel, address: address.trim() }, { idempotency_key }))
      }
      onDone={() => invalidate('/v1/messages/suppressions')}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          {asked.data.address} gets no more messages.
        </ActedOutcome>
      )}
    >
      <NativeSelect
        label="Channel"
        data={CHANNELS}
        value={channel}
        onChange={(event) => setChannel(event.currentTarget.value === 'sms' ? 'sms' : 'email')}
      />
      <TextInput
        label="Address"
        placeholder={channel === 'sms' ? '+14155552671' : 'ada@example.com'}
        data-autofocus
        value={address}
        onChange={(event) => setAddress(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}
