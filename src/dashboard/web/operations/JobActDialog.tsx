// Before an act about jobs: how many they are, why it is done, and then how far it is.
import { useState } from 'react'
import { Bone } from '../kit/Bone.tsx'
import { ConfirmDialog, DialogError } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { filterWords, JOB_ACTS, whyNoAct, type JobActWords } from './job-acts.ts'
import { JobActAsked } from './JobActProgress.tsx'
import { askActed } from '../kit/Acted.tsx'
import type { JobActKind, JobActRow, JobCount } from './shapes.ts'
import { TookEffect } from './TookEffect.tsx'
import { isUnknown } from '../outcomes.ts'
import { LatestActs } from './LatestActs.tsx'

/** About one job, or about all that the filters find. */
export type JobActTarget = { act: JobActKind } & (
  | { job: { id: string; name: string } }
  | { filters: Record<string, string> }
)

export function JobActDialog({ target, close }: { target: JobActTarget | undefined; close: () => void }) {
  const [shown, setShown] = useState(target)
  if (target !== undefined && target !== shown) setShown(target)
  if (shown === undefined) return null
  const key = `${shown.act} ${JSON.stringify(shown)}`
  return <Dialog key={key} target={shown} opened={target !== undefined} close={close} />
}

function Dialog({ target, opened, close }: { target: JobActTarget; opened: boolean; close: () => void }) {
  const [reason, setReason] = useState('')
  const [took_effect, setTookEffect] = useState<boolean>()
  /** Whether it was asked for, and no answer came. */
  const [lost, setLost] = useState(false)
  const { title, does, of_all, of_many }: JobActWords = JOB_ACTS[target.act]
  const filters = 'filters' in target ? target.filters : undefined
  const counted = useAnswer<JobCount>('/ops/jobs/count', filters, {
    enabled: opened && filters !== undefined,
  })
  const { data: count, error } = counted
  const one = 'job' in target ? target.job : undefined
  const resolves = target.act === 'resolve'
  const ready =
    reason.trim() !== '' &&
    (!resolves || took_effect !== undefined) &&
    (one !== undefined || (count?.filter != null && count.count > 0))
  return (
    <ConfirmDialog
      opened={opened}
      onClose={() => {
        close()
        setReason('')
        setTookEffect(undefined)
        setLost(false)
      }}
      title={one === undefined ? `${of_all}?` : `${title} ${one.name}?`}
      action={title}
      {...((target.act === 'discard' || took_effect === false) && { tone: 'bad' as const })}
      does={
        <>
          {filters !== undefined && <p>{error === null && <Matching filters={filters} count={count} />}</p>}
          {count?.filter !== null && <p>{`${one === undefined ? 'Each job' : 'It'} ${does}`}</p>}
          {count?.filter !== null && one === undefined && of_many !== undefined && <p>{of_many}</p>}
          {error !== null && <DialogError error={error} />}
        </>
      }
      ready={ready}
      act={async () => {
        const body = one === undefined ? { filter: count?.filter } : { job_id: one.id }
        try {
          return await askActed<JobActRow>('POST', '/ops/acts', {
            act: target.act,
            reason: reason.trim(),
            ...(resolves && { took_effect }),
            ...body,
          })
        } catch (error) {
          setLost(isUnknown(error as Error))
          throw error
        }
      }}
      unknown="No answer came: it may have been asked for, and workers may be carrying it out. Look at the latest acts before you ask again."
      outcome={(asked) => <JobActAsked of={asked} />}
      onSettled={() => invalidate('/ops/jobs', '/ops/acts')}
    >
      {lost && <LatestActs />}
      {resolves && count?.filter !== null && <TookEffect value={took_effect} onChange={setTookEffect} />}
      {count?.filter !== null && <ReasonField value={reason} onChange={setReason} required />}
    </ConfirmDialog>
  )
}

/** How many jobs the filters find; `count` undefined: they are being counted. */
function Matching({ filters, count }: { filters: Record<string, string>; count: JobCount | undefined }) {
  if (count === undefined) return <Bone width={220} />
  if (count.filter === null) return whyNoAct(filters)
  return (
    <>
      <strong>{countWords(count)}</strong>: {filterWords(filters)}.
    </>
  )
}

function countWords({ count, more }: JobCount): string {
  if (more) return `${count.toLocaleString()} or more jobs`
  return count === 1 ? '1 job' : `${count.toLocaleString()} jobs`
}
