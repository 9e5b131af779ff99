// The base class of all resources.
import { answerOf, type Answer } from './answer.ts'
import type { Client, Content, RequestOptions } from './client.ts'
import { Pages } from './pages.ts'

/** A group of routes of the API. */
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

/** Encodes an id as a path segment. Throws a `TypeError` for ids that change the path: empty, `.` and `..`. */
export function pathSegment(id: string): string {
  if (typeof id !== 'string' || ['', '.', '..'].includes(id)) throw new TypeError(`Not an id: ${id}`)
  return encodeURIComponent(id)
}
