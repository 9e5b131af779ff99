// `sluice.customers`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { CreateCustomer, Customer, UpdateCustomer } from '../schemas.ts'

/** Query parameters of `customers.list`. */
export interface ListCustomersQuery {
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
  /** Filter by email; must match exactly. */
  email?: string
  /** Filter by your own identifier. */
  external_id?: string
  /**
   * Also list deleted customers.
   *
   * `Default: `false`.
   */
  deleted?: boolean
}

/** The people and companies that pay. */
export class CustomersResource extends Resource {
  /**
   * Create a customer.
   *
   * Needs the scope `customer:write`.
   *
   * `POST /v1/customers`
   */
  create(body: CreateCustomer, options?: RequestOptions): Answer<Customer> {
    return this.send('POST', '/v1/customers', { body, key: 'header' }, options)
  }

  /**
   * List customers, newest first.
   *
   * Needs a valid key and no scope.
   *
   * `GET /v1/customers`
   */
  list(query?: ListCustomersQuery, options?: RequestOptions): Pages<Customer> {
    return this.pages('/v1/customers', query, options)
  }

  /**
   * Retrieve a customer.
   *
   * Also returns deleted customers, without personal data.
   *
   * Needs a valid key and no scope.
   *
   * `GET /v1/customers/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Customer> {
    return this.send('GET', `/v1/customers/${pathSegment(id)}`, {}, options)
  }

  /**
   * Update a customer.
   *
   * Fields that you leave out stay unchanged; null clears a field.
   *
   * Needs the scope `customer:write`.
   *
   * `PATCH /v1/customers/{id}`
   */
  update(id: string, body?: UpdateCustomer, options?: RequestOptions): Answer<Customer> {
    return this.send('PATCH', `/v1/customers/${pathSegment(id)}`, { body }, options)
  }

  /**
   * Delete a customer.
   *
   * Erases name, email, phone and metadata, and retains the id for the books. Personal data in earlier
   * events is erased soon after.
   *
   * Needs the scope `customer:write`.
   *
   * `DELETE /v1/customers/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<Customer> {
    return this.send('DELETE', `/v1/customers/${pathSegment(id)}`, {}, options)
  }
}
