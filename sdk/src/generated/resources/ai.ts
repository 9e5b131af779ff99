// `sluice.ai`.

import { Resource } from '../../resource.ts'
import { AiTasksResource } from './ai/tasks.ts'

export class AiResource extends Resource {
  /** Tasks for a language model: generate a text, classify one, extract data from one. */
  readonly tasks = new AiTasksResource(this.client)
}
