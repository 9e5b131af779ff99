// Performs AI tasks: one call to the provider, which is aborted when the task is canceled.
import type { AiFailure } from '#core/outcome.ts'
import { isAiTaskCanceled, findRunningMs } from '#domain/ai-tasks/find.ts'
import { aiTaskInputContext } from '#domain/ai-tasks/sealed.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { emptyAiTaskUpdate } from '#domain/ai-tasks/settle.ts'
import { aiTaskInput, runAiTask, type AiTaskInput } from '#jobs/ai-tasks.ts'
import type { AiAnswer, AiProvider } from '#providers/ai.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../../context.ts'
import {
  done,
  failed,
  giveBack,
  giveBackUnstarted,
  continueWith,
  park,
  retry,
  retryUndone,
  type Decision,
} from '../../decision.ts'
import { outcomeOfSealError } from '../calls.ts'
import { calling, type JobOf } from '../handler.ts'
import { recordMissingCredentials } from '../missing-credentials.ts'
import { settlingAiTask, settlingStep } from './effects.ts'

type AiTaskJob = JobOf<typeof runAiTask>

/** A task fails if no answer arrived for this long after its first call, in at least `MIN_ATTEMPTS` attempts. */
const TIMEOUT_MINUTES = 15
const MIN_ATTEMPTS = 5
/** The interval at which the worker checks during a call whether the task was canceled. */
const POLL_INTERVAL_MS = 500
/** The decision for the job of a canceled task. */
const CANCELED = failed({ code: 'canceled', message: 'The task was canceled.' })

export const aiTaskHandlers = {
  [runAiTask.name]: calling(runAiTask, run, giveUp),
}

/** Shows the task as running, then calls the provider. */
async function run(context: WorkerContext, job: AiTaskJob): Promise<Decision> {
  const { ai } = context
  if (ai === null) {
    const reason = recordMissingCredentials(context, 'ai', 'complete')
    return retry(reason, { outcome: 'misconfigured', unsent: true })
  }
  let text: string
  try {
    text = context.vault.open(job.call.request.sealed.input, aiTaskInputContext(job.tenant_id, job.id))
  } catch (error) {
    return retryUndone(outcomeOfSealError(error))
  }
  const input = aiTaskInput.safeParse(text)
  if (!input.success) return park('the stored input cannot be read', { unsent: true })
  return continueWith(settlingStep(job, { status: 'running' }), () => attempt(context, ai, job, input.data))
}

async function attempt(
  context: WorkerContext,
  ai: AiProvider,
  job: AiTaskJob,
  input: AiTaskInput,
): Promise<Decision> {
  const { sql } = context
  const { tenant_id, payload, call } = job
  if (call.lookup_only) return park('the call may not be sent again', { unsent: true })
  using canceled = watch(() => isAiTaskCanceled(sql, tenant_id, payload.ai_task_id))
  if (await canceled.poll()) return CANCELED
  const { model, max_output_tokens } = call.request
  try {
    const request = { tenant_id, input, model, max_output_tokens }
    const answer = await ai.complete(request, call.key, canceled.signal)
    return canceled.signal.aborted ? CANCELED : await decide(context, job, answer)
  } catch (error) {
    if (!(error instanceof NotStarted)) throw error
    if (canceled.signal.aborted) return CANCELED
    return { ...giveBackUnstarted(error), effects: settlingStep(job, { status: 'queued', not_sent: true }) }
  }
}

async function decide(
  { sql }: WorkerContext,
  job: AiTaskJob,
  { outcome, ...update }: AiAnswer,
): Promise<Decision> {
  const { model, usage } = update
  switch (outcome.kind) {
    case 'done':
      return done({
        effects: settlingStep(job, {
          status: 'succeeded',
          ...outcome.value,
          model: model ?? 'unknown',
          usage,
        }),
      })
    case 'declined':
      return fail(job, outcome.failure, update)
    // Tasks fail until the credentials are corrected. The provider watch logs that the provider refuses them.
    case 'misconfigured':
      return fail(job, { code: 'ai_error', message: outcome.reason }, update)
  }
  const effects = settlingStep(job, { status: 'queued', not_sent: false })
  // An attempt that this worker aborted is not a failure of the provider, even if the call was sent.
  if (job.signal.aborted) return { ...giveBack(outcome.reason), effects }
  const hasTime = async () =>
    (await findRunningMs(sql, job.tenant_id, job.payload.ai_task_id)) < TIMEOUT_MINUTES * 60_000
  if (job.failures + 1 < MIN_ATTEMPTS || (await hasTime())) return { ...retryUndone(outcome), effects }
  const late = outcome.kind === 'ambiguous' && outcome.late === true
  const message = `The AI provider did not answer within ${TIMEOUT_MINUTES} minutes; last failure: ${outcome.reason}.`
  return fail(job, { code: late ? 'ai_timeout' : 'ai_error', message }, update)
}

function fail(job: AiTaskJob, failure: AiFailure, update: Omit<AiAnswer, 'outcome'>): Decision {
  return failed(failure, { effects: settlingStep(job, { status: 'failed', failure, ...update }) })
}

/** Fails a task whose attempts died or threw too often. */
async function giveUp(_context: WorkerContext, job: ClaimedJob, reason: string): Promise<Decision> {
  const payload = runAiTask.payload.safeParse(job.payload)
  if (!payload.success) return park(reason)
  const failure: AiFailure = { code: 'ai_error', message: 'Every attempt crashed or threw an error.' }
  const ids = { tenant_id: job.tenant_id, ...payload.data }
  const update = { ...emptyAiTaskUpdate, ...ids, status: 'failed', failure } as const
  return failed(failure, { effects: settlingAiTask({ update }) })
}

/** Polls `isCanceledNow`; aborts the signal once it returns true. */
function watch(isCanceledNow: () => Promise<boolean>) {
  const controller = new AbortController()
  const poll = async () => {
    if (await isCanceledNow()) controller.abort(new Error('the task was canceled'))
    return controller.signal.aborted
  }
  // A failed poll is ignored: without the database the task cannot be canceled either.
  const timer = setInterval(() => void poll().catch(() => {}), POLL_INTERVAL_MS)
  return { signal: controller.signal, poll, [Symbol.dispose]: () => clearInterval(timer) }
}
