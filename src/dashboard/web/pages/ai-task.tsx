// One AI task: its output, details and timeline.
import { Button } from '@mantine/core'
import { CircleAlert, Clock, Cpu, Flag } from 'lucide-react'
import type { AiTask } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { Timeline, type TimelineItem } from '../timeline/Timeline.tsx'
import { counted } from '../kit/counts.ts'

export function AiTaskPage() {
  const id = usePathParam('id')
  const query = useAnswer<AiTask>(`/v1/ai/tasks/${id}`, undefined, { interval_ms: 3_000 })
  const may_cancel = useMay('cancelAiTask')
  const { begin, props } = useDialogs<'cancel'>()
  const task = query.data
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/ai-tasks', title: 'AI tasks' }}
      label="AI task"
      title={({ kind }) => humanize(kind)}
      status={({ status }) => ({ status })}
      actions={({ status }) =>
        may_cancel &&
        (status === 'queued' || status === 'running') && (
          <Button onClick={() => begin('cancel')}>Cancel task</Button>
        )
      }
      main={
        <>
          {task?.failure && (
            <div className="note" data-tone="bad" role="note">
              <CircleAlert size={16} aria-hidden />
              <div>
                <strong>{humanize(task.failure.code)}</strong>
                {task.failure.message} The task is not retried automatically.
              </div>
            </div>
          )}
          <section className="section">
            <h2>Output</h2>
            {task && <TaskOutput task={task} />}
          </section>
          <section className="section">
            <h2>Timeline</h2>
            {task && <Timeline items={taskTimeline(task)} />}
          </section>
        </>
      }
      side={
        <Facts
          of={task}
          facts={{
            Model: ({ model }) => <span className="mono">{model ?? 'The default'}</span>,
            'Output tokens': ({ max_output_tokens }) =>
              max_output_tokens === null ? 'No limit set' : `At most ${max_output_tokens.toLocaleString()}`,
            'Tokens in': ({ usage }) => usage?.input_tokens.toLocaleString() ?? '–',
            'Tokens out': ({ usage }) => usage?.output_tokens.toLocaleString() ?? '–',
            Attempts: ({ attempts }) => attempts,
            Created: ({ created_at }) => <Instant at={created_at} />,
            Started: ({ started_at }) => <Instant at={started_at} />,
            Finished: ({ finished_at }) => <Instant at={finished_at} />,
          }}
        />
      }
    >
      <CancelDialog {...props('cancel')} id={id} />
    </RowPage>
  )
}

function CancelDialog({ id, ...dialog }: { opened: boolean; onClose: () => void; id: string }) {
  return (
    <ConfirmDialog
      {...dialog}
      title="Cancel this task?"
      action="Cancel task"
      tone="bad"
      effect="The task gets no output, and a running call to the model is aborted. This cannot be undone."
      act={(idempotency_key) => actResponse(sluice.ai.tasks.cancel(id, {}, { idempotency_key }))}
      onDone={() => invalidate('/v1/ai/tasks')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The task is <Status status={result.data.status} />
        </ActResultText>
      )}
    />
  )
}

function TaskOutput({ task: { output, status } }: { task: AiTask }) {
  if (output === null)
    return (
      <p className="dim">{status === 'queued' || status === 'running' ? 'No output yet.' : 'No output.'}</p>
    )
  if ('text' in output) return <div className="message-body">{output.text}</div>
  if ('label' in output) return <div className="message-body">{output.label}</div>
  return <Json value={output.data} label="output" />
}

/** The timeline of a task, from the timestamps that the API returns. */
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
            note: counted(attempts, 'attempt'),
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
            name: humanize(status),
            changed: failure?.message,
            details: failure ?? undefined,
          },
        ]),
  ]
}
