// `sluice.ai.tasks`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { part, Resource } from '../../../resource.ts'
import type { AiTask, AiTaskKind, AiTaskStatus, CancelAiTask, CreateAiTask } from '../../schemas.ts'

/** What `ai.tasks.list` can be asked for. */
export interface ListAiTasksQuery {
  /** The `created_at` of the last item of the page before. */
  before?: string
  /**
   * Page size.
   *
   * `25` unless said otherwise.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Only those of this status. */
  status?: AiTaskStatus
  /** Only those of this kind. */
  kind?: AiTaskKind
}

/** What a language model does for you: generate a text, classify one, extract data from one. */
export class AiTasksResource extends Resource {
  /**
   * Start an AI task.
   *
   * A task that fails is answered as such, also to who waits for it: look at `status` and `failure`.
   * What it is asked is kept encrypted, shown nowhere, and erased when the task is over.
   *
   * Answers what was accepted and does not wait for it, unless `Prefer: wait=N` (at most 30) asks to;
   * what is not finished by then answers 202.
   *
   * Needs the scope `ai:write`.
   *
   * `POST /v1/ai/tasks`
   */
  create(body: CreateAiTask, options?: RequestOptions): Answer<AiTask> {
    return this.send('POST', '/v1/ai/tasks', { body, key: 'header' }, options)
  }

  /**
   * List AI tasks, newest first.
   *
   * Without their outputs: `output` is null in lists. Retrieve a task for its own.
   *
   * Needs the scope `ai:read`.
   *
   * `GET /v1/ai/tasks`
   */
  list(query?: ListAiTasksQuery, options?: RequestOptions): Pages<AiTask> {
    return this.pages('/v1/ai/tasks', query, options)
  }

  /**
   * Retrieve an AI task.
   *
   * Needs the scope `ai:read`.
   *
   * `GET /v1/ai/tasks/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<AiTask> {
    return this.send('GET', `/v1/ai/tasks/${part(id)}`, {}, options)
  }

  /**
   * Cancel an AI task.
   *
   * Canceled at once, unless it has ended. A call to the provider that is under way is aborted within a
   * second, and its answer is not kept.
   *
   * Needs the scope `ai:write`.
   *
   * `POST /v1/ai/tasks/{id}/cancel`
   */
  cancel(id: string, body?: CancelAiTask, options?: RequestOptions): Answer<AiTask> {
    return this.send('POST', `/v1/ai/tasks/${part(id)}/cancel`, { body, key: 'header' }, options)
  }
}
