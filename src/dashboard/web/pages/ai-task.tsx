// One AI task: what came of it, and when.
import { Button } from '@mantine/core'
import { CircleAlert, Clock, Cpu, Flag } from 'lucide-react'
import { useState } from 'react'
import type { AiTask } from '#sdk/index.ts'
import { acted, ActedOutcome } from '../kit/Acted.tsx'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { Timeline, type TimelineItem } from '../kit/Timeline.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'

export function AiTaskPage() {
  const id = usePathParam('id')
  const {
    data: task,
    error,
    refetch,
    dataUpdatedAt,
  } = useAnswer<AiTask>(`/v1/ai/tasks/${id}`, undefined, {
    every_ms: 3_000,
  })
  const may_cancel = useMay('cancelAiTask')
  const [canceling, setCanceling] = useState(false)
  const above = { to: '/ai-tasks', title: 'AI tasks' }
  if (error !== null && task === undefined)
    return <FailedPage title="AI task" above={above} error={error} retry={refetch} />
  const open = task?.status === 'queued' || task?.status === 'running'
  const title = task === undefined ? 'AI task' : inWords(task.kind)
  return (
    <>
      <PageHeader
        title={title}
        heading={
          task && (
            <span className="line">
              {title} <Status status={task.status} pill />
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={may_cancel && open && <Button onClick={() => setCanceling(true)}>Cancel task</Button>}
      />
      {task?.failure && (
        <div className="note" data-tone="bad" role="note">
          <CircleAlert size={16} aria-hidden />
          <div>
            <strong>{inWords(task.failure.code)}</strong>
            {task.failure.message} It is not tried again by itself.
          </div>
        </div>
      )}
      <div className="columns">
        <div>
          <section className="section">
            <h2>Output</h2>
            {task && <TaskOutput task={task} />}
          </section>
          <section className="section">
            <h2>Timeline</h2>
            {task && <Timeline items={taskTimeline(task)} />}
          </section>
        </div>
        <div>
          <Facts
            facts={{
              Model: task && <span className="mono">{task.model ?? 'The usual one'}</span>,
              'Output tokens':
                task &&
                (task.max_output_tokens === null
                  ? 'No limit of yours'
                  : `${task.max_output_tokens.toLocaleString()} at most`),
              'Tokens in': task && (task.usage?.input_tokens.toLocaleString() ?? '–'),
              'Tokens out': task && (task.usage?.output_tokens.toLocaleString() ?? '–'),
              Attempts: task?.attempts,
              Created: task && <Instant at={task.created_at} />,
              Started: task && <Instant at={task.started_at} />,
              Finished: task && <Instant at={task.finished_at} />,
            }}
          />
          {task && Object.keys(task.metadata ?? {}).length > 0 && (
            <section className="section">
              <h2 className="side-title">Metadata</h2>
              <Json value={task.metadata} label="metadata" />
            </section>
          )}
        </div>
      </div>
      <ConfirmDialog
        opened={canceling}
        onClose={() => setCanceling(false)}
        title="Cancel this task?"
        action="Cancel task"
        tone="bad"
        does="It gets no answer; a call that is under way is broken off. This cannot be undone."
        act={(idempotency_key) => acted(sluice.ai.tasks.cancel(id, {}, { idempotency_key }))}
        onDone={() => invalidate('/v1/ai/tasks')}
        outcome={(asked) => (
          <ActedOutcome of={asked} also_accepted>
            The task is <Status status={asked.data.status} />
          </ActedOutcome>
        )}
      />
    </>
  )
}

function TaskOutput({ task: { output, status } }: { task: AiTask }) {
  if (output === null)
    return (
      <p className="dim">
        {status === 'queued' || status === 'running' ? 'There is none yet.' : 'There is none.'}
      </p>
    )
  if ('text' in output) return <div className="letter">{output.text}</div>
  if ('label' in output) return <div className="letter">{output.label}</div>
  return <Json value={output.data} label="output" />
}

/** What the API tells of when it happened. */
function taskTimeline({
  created_at,
  started_at,
  finished_at,
  attempts,
  status,
  failure,
}: AiTask): TimelineItem[] {
  return [
    { id: 'created', at: created_at, ended_at: started_at, icon: Clock, name: 'Waited in the queue' },
    ...(started_at === null
      ? []
      : [
          {
            id: 'run',
            at: started_at,
            ended_at: finished_at,
            icon: Cpu,
            name: 'Calls to the model',
            note: attempts === 1 ? '1 attempt' : `${attempts} attempts`,
            outcome: finished_at === null ? 'running' : status,
          },
        ]),
    ...(finished_at === null
      ? []
      : [
          {
            id: 'end',
            at: finished_at,
            icon: Flag,
            name: inWords(status),
            changed: failure?.message,
            details: failure ?? undefined,
          },
        ]),
  ]
}
