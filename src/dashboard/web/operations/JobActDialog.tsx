// The dialog of an act on jobs: the number of jobs, the reason, then the progress.
import { useState } from 'react'
import { Skeleton } from '../kit/Skeleton.tsx'
import { ConfirmDialog, DialogError } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { filtersText, JOB_ACTS, filterRefusal, type JobActTexts } from './job-acts.ts'
import { RequestedJobAct } from './JobActProgress.tsx'
import { sendAct } from '../kit/ActResult.tsx'
import type { JobActKind, JobActRow, JobCount } from './shapes.ts'
import { TookEffect } from './TookEffect.tsx'
import { isOutcomeUnknown } from '../outcomes.ts'
import { LatestActs } from './LatestActs.tsx'
import { counted } from '../kit/counts.ts'

/** One job, or all jobs that match the filters. */
export type JobActTarget = { act: JobActKind } & (
  | { job: { id: string; name: string } }
  | { filters: Record<string, string> }
)

export function JobActDialog({ target, close }: { target: JobActTarget | undefined; close: () => void }) {
  const [displayed, setDisplayed] = useState(target)
  if (target !== undefined && target !== displayed) setDisplayed(target)
  if (displayed === undefined) return null
  const key = `${displayed.act} ${JSON.stringify(displayed)}`
  return <Dialog key={key} target={displayed} opened={target !== undefined} close={close} />
}

function Dialog({ target, opened, close }: { target: JobActTarget; opened: boolean; close: () => void }) {
  const [reason, setReason] = useState('')
  const [took_effect, setTookEffect] = useState<boolean>()
  /** Whether the response was lost. */
  const [outcome_unknown, setLost] = useState(false)
  /** The number of matching jobs when the act was accepted: afterwards, the filters match fewer jobs. */
  const [accepted_count, setAcceptedCount] = useState<JobCount>()
  const { title, effect, title_for_all, note_for_all }: JobActTexts = JOB_ACTS[target.act]
  const filters = 'filters' in target ? target.filters : undefined
  const counted = useAnswer<JobCount>('/ops/jobs/count', filters, {
    enabled: opened && filters !== undefined,
  })
  const { error } = counted
  const count = accepted_count ?? counted.data
  const job = 'job' in target ? target.job : undefined
  const is_resolve = target.act === 'resolve'
  const ready =
    reason.trim() !== '' &&
    (!is_resolve || took_effect !== undefined) &&
    (job !== undefined || (count?.filter != null && count.count > 0))
  return (
    <ConfirmDialog
      opened={opened}
      onClose={() => {
        close()
        setReason('')
        setTookEffect(undefined)
        setLost(false)
        setAcceptedCount(undefined)
      }}
      title={job === undefined ? `${title_for_all}?` : `${title} ${job.name}?`}
      action={title}
      {...((target.act === 'discard' || took_effect === false) && { tone: 'bad' as const })}
      effect={
        <>
          {filters !== undefined && <p>{error === null && <Matching filters={filters} count={count} />}</p>}
          {count?.filter !== null && <p>{`${job === undefined ? 'Each job' : 'It'} ${effect}`}</p>}
          {count?.filter !== null && job === undefined && note_for_all !== undefined && <p>{note_for_all}</p>}
          {error !== null && <DialogError error={error} />}
        </>
      }
      ready={ready}
      act={async () => {
        const body = job === undefined ? { filter: count?.filter } : { job_id: job.id }
        try {
          const response = await sendAct<JobActRow>('POST', '/ops/acts', {
            act: target.act,
            reason: reason.trim(),
            ...(is_resolve && { took_effect }),
            ...body,
          })
          setAcceptedCount(count)
          return response
        } catch (error) {
          setLost(isOutcomeUnknown(error as Error))
          throw error
        }
      }}
      unknown="There was no response: the act may have been accepted, and workers may be carrying it out. Check the recent acts before you request it again."
      outcome={(result) => <RequestedJobAct of={result} />}
      onSettled={() => invalidate('/ops/jobs', '/ops/acts')}
    >
      {outcome_unknown && <LatestActs />}
      {is_resolve && count?.filter !== null && <TookEffect value={took_effect} onChange={setTookEffect} />}
      {count?.filter !== null && <ReasonField value={reason} onChange={setReason} required />}
    </ConfirmDialog>
  )
}

/** The number of matching jobs. `count` undefined: loading. */
function Matching({ filters, count }: { filters: Record<string, string>; count: JobCount | undefined }) {
  if (count === undefined) return <Skeleton width={220} />
  if (count.filter === null) return filterRefusal(filters)
  return (
    <>
      <strong>{countText(count)}</strong>: {filtersText(filters)}.
    </>
  )
}

function countText({ count, more }: JobCount): string {
  if (more) return `${count.toLocaleString()} or more jobs`
  return counted(count, 'job')
}
