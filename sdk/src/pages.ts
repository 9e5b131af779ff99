// Lists: `await` returns one page, `for await` iterates over all items.
import type { Client, Query, RequestOptions } from './client.ts'

/** One page of items. */
export interface Page<T> extends Array<T> {
  /** Whether there may be another page. */
  readonly has_more: boolean
  /** The next page. Null: this is the last one. */
  next(): Promise<Page<T> | null>
}

/** The page size of a query without `limit`. */
const DEFAULT_LIMIT = 25

/**
 * A list. Nothing is requested before the list is awaited or iterated. `await` requests the first page. `for await`
 * iterates over the items of all pages and requests each page when it is needed.
 */
export class Pages<T> implements Promise<Page<T>>, AsyncIterable<T> {
  readonly [Symbol.toStringTag] = 'Pages'
  readonly #fetchPage: () => Promise<Page<T>>
  #first: Promise<Page<T>> | undefined

  constructor(client: Client, path: string, query: object = {}, options?: RequestOptions) {
    const fetchPage = async (page_query: Query): Promise<Page<T>> => {
      const { data, response } = await client<T[]>('GET', path, { query: page_query }, options)
      const next_query = nextQuery(response.headers.get('link'))
      const isFull = data.length >= Number(page_query['limit'] ?? DEFAULT_LIMIT)
      return pageOf(data, next_query !== null && isFull ? () => fetchPage(next_query) : null)
    }
    this.#fetchPage = () => fetchPage(query as Query)
  }

  // oxlint-disable-next-line unicorn/no-thenable -- `await` requests the first page
  then<A = Page<T>, B = never>(
    fulfilled?: ((page: Page<T>) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return (this.#first ??= this.#fetchPage()).then(fulfilled, rejected)
  }

  catch<B = never>(rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Page<T> | B> {
    return this.then(null, rejected)
  }

  finally(after?: (() => void) | null): Promise<Page<T>> {
    return this.then((page) => page).finally(after)
  }

  /** Iterates over all pages. */
  async *pages(): AsyncGenerator<Page<T>, void> {
    for (let page: Page<T> | null = await this; page !== null; page = await page.next()) yield page
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for await (const page of this.pages()) yield* page
  }
}

/** The query parameters of the `next` link. Null: there is no next page. */
export function nextQuery(link: string | null): Record<string, string> | null {
  const [, query] = /\?([^>]*)>; *rel="?next/.exec(link ?? '') ?? []
  return query === undefined ? null : Object.fromEntries(new URLSearchParams(query))
}

function pageOf<T>(items: T[], fetchPage: (() => Promise<Page<T>>) | null): Page<T> {
  // Not enumerable, so that a page prints and compares as an array.
  const next = async () => (fetchPage === null ? null : await fetchPage())
  return Object.defineProperties(items, {
    has_more: { value: fetchPage !== null },
    next: { value: next },
  }) as Page<T>
}
