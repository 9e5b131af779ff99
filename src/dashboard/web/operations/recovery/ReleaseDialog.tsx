// The dialog that releases what waits since switches of the database.
import { Radio, Stack } from '@mantine/core'
import { useState } from 'react'
import { AuditLink, sendAct } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { ReasonField } from '../../kit/ReasonField.tsx'
import { invalidate } from '../../queries.ts'
import type { HeldRow } from '../shapes.ts'
import { heldText, switchesText } from './texts.ts'

/** `numbers`: the switches to release, in order. The last one is the newest that the operator has seen. */
export function ReleaseDialog({
  numbers,
  held,
  opened,
  onClose,
}: {
  numbers: number[]
  held: HeldRow[]
  opened: boolean
  onClose: () => void
}) {
  const [messages, setMessages] = useState<string | null>(null)
  const [reason, setReason] = useState('')
  const what = switchesText(numbers)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Release ${what}?`}
      action="Release"
      tone="bad"
      effect={
        <>
          {held.length > 0 && <>Waiting: {heldText(held)}. </>}
          Jobs start again. What may have been done without this database is looked up first. What creates
          something at a provider may still wait until the lists of the providers have been read.
        </>
      }
      ready={messages !== null && reason.trim() !== ''}
      missing="Choose what happens to the messages, and enter a reason."
      act={() =>
        sendAct('POST', '/ops/switches/release', { up_to: numbers.at(-1), messages, reason: reason.trim() })
      }
      outcome={({ audit_seq }) => (
        <>
          Released: {what}. <AuditLink of="installation" seq={audit_seq} />
        </>
      )}
      onSettled={() => invalidate('/ops/switches', '/ops/recovery')}
    >
      <Radio.Group
        label="Messages that were accepted before the switch"
        description="Some of them may have been sent by the database that was lost."
        value={messages}
        onChange={setMessages}
      >
        <Stack gap={4} mt={4}>
          <Radio value="send" label="Send them: some people may get a message twice" />
          <Radio value="discard" label="Discard them: some people may never get their message" />
        </Stack>
      </Radio.Group>
      <ReasonField description="The audit log keeps it." value={reason} onChange={setReason} required />
    </ConfirmDialog>
  )
}
