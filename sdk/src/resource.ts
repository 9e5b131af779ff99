// What every resource of the API can do.
import { answerOf, type Answer } from './answer.ts'
import type { Client, Content, RequestOptions } from './client.ts'
import { Pages } from './pages.ts'

/** Some routes of the API. */
export class Resource {
  protected readonly client: Client

  constructor(client: Client) {
    this.client = client
  }

  protected send<T>(method: string, path: string, content: Content, options?: RequestOptions): Answer<T> {
    return answerOf(this.client<T>(method, path, content, options))
  }

  protected pages<T>(path: string, query?: object, options?: RequestOptions): Pages<T> {
    return new Pages<T>(this.client, path, query, options)
  }
}

/** An id as a part of a path. Throws for what would be another path. */
export function part(id: string): string {
  if (typeof id !== 'string' || ['', '.', '..'].includes(id)) throw new TypeError(`Not an id: ${id}`)
  return encodeURIComponent(id)
}
