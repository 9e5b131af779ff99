// The client under Stripe's SDK: our own, and only answers that the SDK takes for what they are.
import type { Stripe } from 'stripe'
import { stringEntries, isObject, isReplayed, NoAnswer, openHttp } from '../http.ts'

type SdkClient = NonNullable<NonNullable<ConstructorParameters<typeof Stripe>[1]>['httpClient']>

/**
 * An SDK client for `api_base` (scheme, host, port and perhaps a path), whatever host the SDK has in mind.
 * It takes the SDK's `timeout` as a total deadline and rejects as `HttpClient` does, also with `NoAnswer` where there is no
 * `error` object under a status other than 2xx: the SDK would take such an object for success, and a scalar would end the
 * process. It never rejects with a code that makes the SDK send again.
 */
export function guardClient(api_base: string): SdkClient & { close(): Promise<void> } {
  const http = openHttp(api_base)
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
          throw new Error('answers are read whole')
        },
        toJSON: async () => body,
      }
    },
    close: () => http.close(),
  }
}
