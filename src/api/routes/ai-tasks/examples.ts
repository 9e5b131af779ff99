// Example AI tasks by status: only the fields in which they differ from the examples of the schema.

const UNFINISHED = { output: null, usage: null, finished_at: null }

export const AI_TASK_QUEUED = {
  ...UNFINISHED,
  status: 'queued',
  model: null,
  max_output_tokens: null,
  attempts: 0,
  started_at: null,
}

export const AI_TASK_RUNNING = { ...UNFINISHED, status: 'running', model: null, max_output_tokens: null }

export const AI_TASK_FAILED = {
  output: null,
  status: 'failed',
  failure: { code: 'ai_refused', message: 'The model declined.' },
}
