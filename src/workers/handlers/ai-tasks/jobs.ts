// Performs AI tasks: one call to the provider, which is aborted when the task is canceled.
import type { AiFailure } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
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
  continueWith,
  park,
  retry,
  retryUndone,
  type Decision,
} from '../../decision.ts'
import { calling, type JobOf } from '../handler.ts'
import { settlingAiTask, settlingStep } from './effects.ts'

type AiTaskJob = JobOf<typeof runAiTask>

/** A task has failed when no answer came for so long after its first call began, in at least so many attempts. */
const TIMEOUT_MINUTES = 15
const MIN_ATTEMPTS = 5
/** How often a running call looks whether its task was canceled. */
const POLL_INTERVAL_MS = 500
/** What becomes of the job of a task that was canceled. */
const CANCELED = failed({ code: 'canceled', message: 'The task was canceled.' })

export const aiTaskHandlers = {
  [runAiTask.name]: calling(runAiTask, run, giveUp),
}

/** Shows the task as running, and asks. */
async function run(context: WorkerContext, job: AiTaskJob): Promise<Decision> {
  const { ai } = context
  if (ai === null)
    return retry('AI_BASE_URL and AI_API_KEY are not set', { outcome: 'misconfigured', unsent: true })
  let text: string
  try {
    text = context.vault.open(job.call.request.sealed.input, aiTaskInputContext(job.tenant_id, job.id))
  } catch (error) {
    if (error instanceof SealError) return retry(error.message, { outcome: 'misconfigured', unsent: true })
    throw error
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
    return { ...giveBack(error.message), effects: settlingStep(job, { status: 'queued', not_sent: true }) }
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
    // Tasks fail until the credentials are corrected, and the watch on the provider says so.
    case 'misconfigured':
      return fail(job, { code: 'ai_error', message: outcome.reason }, update)
  }
  const effects = settlingStep(job, { status: 'queued', not_sent: false })
  // An attempt that we ended ourselves is not the provider's failure; whether it was sent makes no difference.
  if (job.signal.aborted) return { ...giveBack(outcome.reason), effects }
  const hasTime = async () =>
    (await findRunningMs(sql, job.tenant_id, job.payload.ai_task_id)) < TIMEOUT_MINUTES * 60_000
  if (job.failures + 1 < MIN_ATTEMPTS || (await hasTime())) return { ...retryUndone(outcome), effects }
  const late = outcome.kind === 'ambiguous' && outcome.late === true
  const message = `The AI provider brought no answer in ${TIMEOUT_MINUTES} minutes; at last: ${outcome.reason}.`
  return fail(job, { code: late ? 'ai_timeout' : 'ai_error', message }, update)
}

function fail(job: AiTaskJob, failure: AiFailure, update: Omit<AiAnswer, 'outcome'>): Decision {
  return failed(failure, { effects: settlingStep(job, { status: 'failed', failure, ...update }) })
}

/** Ends a task whose attempts died or threw too often. */
async function giveUp(_context: WorkerContext, job: ClaimedJob, reason: string): Promise<Decision> {
  const payload = runAiTask.payload.safeParse(job.payload)
  if (!payload.success) return park(reason)
  const failure: AiFailure = { code: 'ai_error', message: 'No attempt came to an end.' }
  const ids = { tenant_id: job.tenant_id, ...payload.data }
  const update = { ...emptyAiTaskUpdate, ...ids, status: 'failed', failure } as const
  return failed(failure, { effects: settlingAiTask({ update }) })
}

/** Looks again and again; the signal aborts once a look has found it so. */
function watch(isCanceledNow: () => Promise<boolean>) {
  const controller = new AbortController()
  const poll = async () => {
    if (await isCanceledNow()) controller.abort(new Error('the task was canceled'))
    return controller.signal.aborted
  }
  // Without the database nobody can cancel either.
  const timer = setInterval(() => void poll().catch(() => {}), POLL_INTERVAL_MS)
  return { signal: controller.signal, poll, [Symbol.dispose]: () => clearInterval(timer) }
}
