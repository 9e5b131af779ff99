// `sluice.ai.tasks`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { pathSegment, Resource } from '../../../resource.ts'
import type { AiTask, AiTaskKind, AiTaskStatus, CancelAiTask, CreateAiTask } from '../../schemas.ts'

/** Query parameters of `ai.tasks.list`. */
export interface ListAiTasksQuery {
  /** The `created_at` of the last item of the previous page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Filter by status. */
  status?: AiTaskStatus
  /** Filter by kind. */
  kind?: AiTaskKind
}

/** Tasks for a language model: generate a text, classify one, extract data from one. */
export class AiTasksResource extends Resource {
  /**
   * Start an AI task.
   *
   * A task that fails is not an error, even if you wait: check `status` and `failure`. The input is
   * stored encrypted, never shown, and erased when the task is final.
   *
   * Answers with the accepted resource and does not wait, unless you send `Prefer: wait=N` (at most 30).
   * If the work is not finished by then, the answer is 202.
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
   * `output` is null in lists. Retrieve a task to read its output.
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
    return this.send('GET', `/v1/ai/tasks/${pathSegment(id)}`, {}, options)
  }

  /**
   * Cancel an AI task.
   *
   * Cancels a task at once, unless it has ended. A call to the provider that is in progress is aborted
   * within a second, and its answer is discarded.
   *
   * Needs the scope `ai:write`.
   *
   * `POST /v1/ai/tasks/{id}/cancel`
   */
  cancel(id: string, body?: CancelAiTask, options?: RequestOptions): Answer<AiTask> {
    return this.send('POST', `/v1/ai/tasks/${pathSegment(id)}/cancel`, { body, key: 'header' }, options)
  }
}
