// The dialog that releases what waits since switches of the database.
import { Checkbox, Radio, Stack } from '@mantine/core'
import { useState } from 'react'
import { AuditLink, sendAct } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { ReasonField } from '../../kit/ReasonField.tsx'
import { invalidate } from '../../queries.ts'
import type { HeldRow, RecoveryAnswer } from '../shapes.ts'
import { heldText, smsWaiverText, switchesText, waiverText } from './texts.ts'

/**
 * `released`: the switches to release; `awaiting`: the switches for whose lists jobs wait. Both in order: the last one
 * is the newest that the operator has seen. `only_sms`: nothing but SMS waits, for the list of received SMS.
 */
export function ReleaseDialog({
  released,
  awaiting,
  only_sms,
  state: { failing_lists },
  held,
  opened,
  onClose,
}: {
  released: number[]
  awaiting: number[]
  only_sms: boolean
  state: RecoveryAnswer
  held: HeldRow[]
  opened: boolean
  onClose: () => void
}) {
  const [messages, setMessages] = useState<string | null>(null)
  const [without_lists, setWithoutLists] = useState(false)
  const [reason, setReason] = useState('')
  const releases = released.length > 0
  const what = switchesText(releases ? released : awaiting)
  const list = only_sms ? 'the received SMS' : 'the lists'
  const up_to = Math.max(...released, ...awaiting)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={releases ? `Release ${what}?` : `Do not wait for ${list} since ${what}?`}
      action="Release"
      tone="bad"
      effect={
        <>
          {held.length > 0 && <>Waiting: {heldText(held)}. </>}
          {only_sms ? 'The SMS that wait are sent.' : <JobsEffect without_lists={without_lists} />}
        </>
      }
      ready={(releases ? messages !== null : without_lists) && reason.trim() !== ''}
      missing={
        releases
          ? 'Choose what happens to the messages, and enter a reason.'
          : `Choose not to wait for ${list}, and enter a reason.`
      }
      act={() =>
        sendAct('POST', '/ops/switches/release', { up_to, messages, without_lists, reason: reason.trim() })
      }
      outcome={({ audit_seq }) => (
        <>
          {releases ? `Released: ${what}.` : `Nothing waits for ${list} since ${what}.`}{' '}
          <AuditLink of="installation" seq={audit_seq} />
        </>
      )}
      onSettled={() => invalidate('/ops/switches', '/ops/recovery')}
    >
      {releases && (
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
      )}
      {awaiting.length > 0 && (
        <Checkbox
          label={
            only_sms
              ? 'Do not wait for the received SMS: people whose opt-out the database lost may get an SMS'
              : 'Do not wait for the lists of the providers: money may be paid out or refunded twice'
          }
          description={only_sms ? smsWaiverText(failing_lists) : waiverText(failing_lists)}
          checked={without_lists}
          onChange={(event) => setWithoutLists(event.currentTarget.checked)}
        />
      )}
      <ReasonField description="The audit log keeps it." value={reason} onChange={setReason} required />
    </ConfirmDialog>
  )
}

function JobsEffect({ without_lists }: { without_lists: boolean }) {
  return (
    <>
      Jobs start again. What may have been done without this database is looked up first.
      {!without_lists &&
        ' What creates something at a provider may still wait until the lists of the providers have been read.'}
    </>
  )
}
