// `sluice.testClock`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import { Resource } from '../../resource.ts'
import type { AdvanceTestClock, TestClock } from '../schemas.ts'

/** Move the time of your tenant in test mode. */
export class TestClockResource extends Resource {
  /**
   * Retrieve the test clock.
   *
   * Only with a key of test mode. While the clock is `advancing`, `now` passes from one deadline to the
   * next. At each it waits until what was due has run, at most 30 seconds; once it is `ready`, it has
   * arrived.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/test_clock`
   */
  retrieve(options?: RequestOptions): Answer<TestClock> {
    return this.send('GET', '/v1/test_clock', {}, options)
  }

  /**
   * Move the test clock forward.
   *
   * Only with a key of test mode. Holds expire, scheduled messages are sent, retries of deliveries and
   * of jobs come due, and verifications whose person did nothing are rejected, in the order of their
   * deadlines and with their events. What is stored keeps the real time, such as `created_at`, and so
   * does what expires for security. The clock never goes back. The same request may be repeated until
   * the clock has arrived.
   *
   * Needs the scope `payments:write`.
   *
   * `POST /v1/test_clock`
   */
  advance(body: AdvanceTestClock, options?: RequestOptions): Answer<TestClock> {
    return this.send('POST', '/v1/test_clock', { body, key: 'needless' }, options)
  }
}
