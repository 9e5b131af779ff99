// The HTTP client of Stripe's SDK. Rejects answers that the SDK would misinterpret.
import type { Stripe } from 'stripe'
import { stringEntries, isObject, isReplayed, NoAnswer, type HttpClient } from '../http.ts'

type SdkClient = NonNullable<NonNullable<ConstructorParameters<typeof Stripe>[1]>['httpClient']>

/**
 * A client for the SDK that sends with `http`, which knows the address of the API. It ignores the SDK's host, uses the
 * SDK's `timeout` as the deadline of the whole request, and rejects as `HttpClient` does. It also rejects with
 * `NoAnswer` if a status other than 2xx comes without an `error` object: the SDK would treat the answer as a success,
 * and a scalar would crash the process. It never rejects with a code after which the SDK retries.
 */
export function guardClient(http: HttpClient): SdkClient & { close(): Promise<void> } {
  return {
    getClientName: () => 'undici',
    makeRequest: async (_host, _port, path, method, sent, sent_body, _protocol, timeout) => {
      const request = { path, method, headers: stringEntries(sent), body: sent_body || null }
      const { status, headers, body } = await http.send(request, timeout)
      if ((status >= 300 || body['error']) && !isObject(body['error'])) {
        const reason = `unreadable answer: ${status} without an error object`
        throw new NoAnswer(reason, { sent: true, replayed: isReplayed(headers) })
      }
      return {
        getStatusCode: () => status,
        getHeaders: () => headers,
        getRawResponse: () => ({ headers }),
        toStream: () => {
          throw new Error('streaming is not supported')
        },
        toJSON: async () => body,
      }
    },
    close: () => http.close(),
  }
}
