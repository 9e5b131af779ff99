// An API client: JSON over HTTP with an API key.

export type Answer = { status: number; body: any; headers: Headers; text: string }
export type Client = {
  url: string
  key: string
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  patch(path: string, body: unknown): Promise<Answer>
  delete(path: string): Promise<Answer>
  send(
    method: string,
    path: string,
    init?: { body?: string | Buffer; headers?: Record<string, string> },
  ): Promise<Answer>
}

export function createClient(url: string, key: string): Client {
  async function send(
    method: string,
    path: string,
    { body, headers = {} }: { body?: string | Buffer; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(key !== '' && { authorization: `Bearer ${key}` }), ...headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    })
    const text = await response.text()
    const json = response.headers.get('content-type')?.includes('application/json') === true
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: json ? JSON.parse(text) : undefined,
    }
  }
  const withBody = (body: unknown, headers?: Record<string, string>) =>
    body === undefined
      ? { headers }
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }
  return {
    url,
    key,
    send,
    get: (path, headers) => send('GET', path, { headers }),
    post: (path, body, headers) => send('POST', path, withBody(body, headers)),
    patch: (path, body) => send('PATCH', path, withBody(body)),
    delete: (path) => send('DELETE', path),
  }
}

/** The fields of a payment with a card that the processor accepts, without amount and key. */
export const BY_CARD = { currency: 'USD', method: 'card', payment_method: 'pm_card_visa' } as const

let counter = 0
/** Creates a key that is unique in this run. */
export function freshKey(): string {
  counter += 1
  return `key-${process.pid}-${counter}`
}
