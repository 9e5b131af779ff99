// The client of the API.
import { createClient, type Content, type RequestOptions, type SluiceOptions } from './client.ts'
import { Feed } from './feed.ts'
import { answerOf, type Answer } from './answer.ts'
import { Resources } from './generated/resources.ts'

/**
 * A client of Sluice, with one member for each resource:
 *
 *     const sluice = new Sluice({ api_key, base_url })
 *     const customer = await sluice.customers.create({ name: 'Ada' })
 */
export class Sluice extends Resources {
  override readonly events: Feed

  constructor(options: SluiceOptions) {
    super(createClient(options))
    this.events = new Feed(this.client)
  }

  /** Sends a request to any route, with the same retries and errors. A POST without `key` is not retried. */
  request<T = unknown>(method: string, path: string, content?: Content, options?: RequestOptions): Answer<T> {
    return answerOf(this.client<T>(method, path, content, options))
  }
}
