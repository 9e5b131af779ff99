// Suppressions: addresses and numbers that get no messages.
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import type { Channel, Suppression } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { humanize } from '../kit/statuses.ts'
import { CHANNELS, CHANNEL_LABELS } from '../messages/channels.ts'
import { MessagesTabs } from '../messages/MessagesTabs.tsx'
import { invalidate } from '../queries.ts'
import { useMay } from '../session.tsx'

const COLUMNS: TableColumn<Suppression>[] = [
  {
    title: 'Address',
    cell: ({ address }) => <strong>{address}</strong>,
    clip: true,
    csv: ({ address }) => address,
  },
  { title: 'Channel', cell: ({ channel }) => CHANNEL_LABELS[channel], csv: ({ channel }) => channel },
  { title: 'Reason', cell: ({ reason }) => humanize(reason), csv: ({ reason }) => reason },
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
]

const SUPPRESSIONS = defineList({
  path: '/v1/messages/suppressions',
  label: 'Suppressions',
  filters: [
    { kind: 'choice', name: 'channel', label: 'Channel', labels: CHANNEL_LABELS },
    { kind: 'choice', name: 'reason', label: 'Reason' },
    { kind: 'text', name: 'address', label: 'Address' },
  ],
  columns: COLUMNS,
  file: 'suppressions.csv',
  key: 'id',
  empty: { title: 'No suppressions', text: 'No recipient has bounced, complained or opted out.' },
})

export function SuppressionsPage() {
  const may_add = useMay('createSuppression')
  const may_remove = useMay('deleteSuppression')
  const { opening, begin, props } = useDialogs<'add' | 'remove'>()
  const [removed, setRemoved] = useState<Suppression>()
  const add = may_add && (
    <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => begin('add')}>
      Add suppression
    </Button>
  )
  return (
    <ListPage
      of={SUPPRESSIONS}
      title="Suppressions"
      description="Addresses and numbers that get no more messages: they bounced, complained, opted out or were added by hand."
      actions={add}
      empty_action={add}
      frame={(list) => <MessagesTabs active="/messages/suppressions">{list}</MessagesTabs>}
      row_acts={(row) =>
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
        )
      }
    >
      <div key={opening}>
        <AddDialog {...props('add')} />
        <RemoveDialog {...props('remove')} suppression={removed} />
      </div>
    </ListPage>
  )
}

function RemoveDialog({
  suppression,
  ...dialog
}: {
  suppression: Suppression | undefined
  opened: boolean
  onClose: () => void
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title={`Remove ${suppression?.address ?? 'this suppression'}?`}
      action="Remove"
      tone="bad"
      effect={
        suppression?.reason === 'manual'
          ? 'Messages can be sent to this address again.'
          : 'Messages can be sent to this address again, although it bounced, complained or opted out. Make sure that its owner agrees.'
      }
      act={() => actResponse(sluice.messages.suppressions.delete(suppression?.id ?? ''))}
      onDone={() => invalidate('/v1/messages/suppressions')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The suppression is removed.
        </ActResultText>
      )}
    />
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
      effect="No more messages are sent to this address, including messages that were accepted but not sent yet."
      ready={address.trim() !== ''}
      act={(idempotency_key) =>
        actResponse(
          sluice.messages.suppressions.create({ channel, address: address.trim() }, { idempotency_key }),
        )
      }
      onDone={() => invalidate('/v1/messages/suppressions')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {result.data.address} gets no more messages.
        </ActResultText>
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
