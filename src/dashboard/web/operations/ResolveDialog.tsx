// The dialog that resolves a call whose outcome is unknown. The operator's choice decides the effect.
import { TextInput } from '@mantine/core'
import { useState } from 'react'
import { sendAct } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { resourceLabel } from '../resources.ts'
import { invalidate } from '../queries.ts'
import { JOB_ACTS } from './job-acts.ts'
import { RequestedJobAct } from './JobActProgress.tsx'
import type { JobActRow, JobDetails } from './shapes.ts'
import { TookEffect } from './TookEffect.tsx'

export function ResolveDialog({
  job,
  opened,
  onClose,
}: {
  job: JobDetails
  opened: boolean
  onClose: () => void
}) {
  const [took_effect, setTookEffect] = useState<boolean>()
  const [reference, setReference] = useState('')
  const [reason, setReason] = useState('')
  const { title, effect } = JOB_ACTS.resolve
  const example = job.call?.makes ?? null
  const needs_reference = took_effect === true && example !== null
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`${title} ${job.name}?`}
      action={title}
      {...(took_effect === false && { tone: 'bad' as const })}
      effect={took_effect === undefined ? `It ${effect}` : effectText(job, took_effect)}
      ready={
        took_effect !== undefined && reason.trim() !== '' && (!needs_reference || reference.trim() !== '')
      }
      act={() =>
        sendAct<JobActRow>('POST', '/ops/acts', {
          act: 'resolve',
          job_id: job.id,
          reason: reason.trim(),
          took_effect,
          ...(needs_reference && { reference: reference.trim() }),
        })
      }
      outcome={(result) => <RequestedJobAct of={result} />}
      onDone={() => invalidate('/ops/jobs', '/ops/acts')}
    >
      <TookEffect value={took_effect} onChange={setTookEffect} />
      {needs_reference && (
        <TextInput
          label="Provider reference"
          description="The provider’s id of what was created."
          placeholder={example}
          maxLength={255}
          required
          value={reference}
          onChange={(event) => setReference(event.currentTarget.value)}
        />
      )}
      <ReasonField value={reason} onChange={setReason} required />
    </ConfirmDialog>
  )
}

function effectText({ works_on, call }: JobDetails, took_effect: boolean): string {
  if (took_effect)
    return 'A worker looks up the call at the provider and settles the result. Nothing is sent again.'
  const resource = works_on === null ? 'resource' : resourceLabel(works_on.resource).toLowerCase()
  const money =
    works_on === null || works_on.amount_minor === null || works_on.currency === null
      ? ''
      : ` of ${formatMoney(works_on.amount_minor, works_on.currency)}`
  const becomes =
    call?.makes === null
      ? `The ${resource}${money} returns to its state before the call, and the call can be requested again.`
      : `The ${resource}${money} fails, and its reserved money is available again.`
  return `${becomes} Nothing is sent. If the call did take effect, money may have moved that is not in the books: a drift reports it.`
}
