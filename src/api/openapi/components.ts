// What operations of the OpenAPI document share: headers that are sent and answered, and authentication.
import { AREAS } from '#domain/areas.ts'

export const SECURITY_SCHEMES = {
  api_key: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'sk_live_<tenant>_<random32>',
    description: [
      'An API key of the tenant: `Authorization: Bearer sk_live_<tenant>_<random32>`. The key says whose the records are and what may be done by its scopes. Reading customers needs no scope.',
      ...Object.values(AREAS).flatMap(({ scopes }) =>
        Object.entries(scopes).map(([scope, may]) => `- \`${scope}\`: ${may}`),
      ),
    ].join('\n'),
  },
} as const

const REQUEST_ID = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' }

/** Headers that a request may bring, by name. None has an example: the reference would send it with every request. */
export const PARAMETERS = {
  'x-request-id': {
    name: 'x-request-id',
    in: 'header',
    required: false,
    description:
      'Your own id for this request. It comes back in the answer and is in our logs. An id of another form is ignored, and the request gets one of ours.',
    schema: REQUEST_ID,
  },
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'May be sent instead of `idempotency_key` in the body, e.g. `order-17-payment`. (For a create this document requires the field; the server takes either.) If both are sent, they must be equal.',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    required: false,
    description:
      'How long to wait for the provider (RFC 7240): `wait=N`, 0 to 30 seconds, or `respond-async` for an answer at once. Together, `respond-async, wait=N`: wait up to N seconds, then 202. Without it: as each operation says. The feed of events takes `wait=N` and waits for events.',
    schema: { type: 'string' },
  },
} as const

/** Headers that an answer may bring, by name. */
export const HEADERS = {
  'x-request-id': {
    description: 'The id of this request: yours, or one that we gave. Name it when you ask for help.',
    schema: { ...REQUEST_ID, examples: ['0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10'] },
  },
  RateLimit: {
    description: 'What is left (`r`) and in how many seconds all of it is back (`t`).',
    schema: { type: 'string', examples: ['"default";r=1999;t=1'] },
  },
  'RateLimit-Policy': {
    description: 'How many requests at once (`q`), refilled over how many seconds (`w`).',
    schema: { type: 'string', examples: ['"default";q=2000;w=4'] },
  },
  'Retry-After': {
    description: 'Seconds to wait before the next try.',
    schema: { type: 'integer', format: 'int32', minimum: 1, examples: [1] },
  },
  'WWW-Authenticate': {
    description: 'How to authenticate.',
    schema: { type: 'string', examples: ['Bearer'] },
  },
  Link: {
    description:
      'The address of the next page; sent when this one is full, and by the feed of events always.',
    schema: {
      type: 'string',
      examples: ['</v1/payments?limit=25&before=2026-11-20T10%3A15%3A30.123456Z>; rel="next"'],
    },
  },
  Location: {
    description: 'Where to look for the result.',
    schema: { type: 'string', examples: ['/v1/payments/0198f6f0-1234-7000-8000-123456789abc'] },
  },
  'Preference-Applied': {
    description: 'The preferences that were followed.',
    schema: { type: 'string', examples: ['wait=5'] },
  },
  'Idempotent-Replayed': {
    description: '`true` when this answers a request that was accepted before with the same key.',
    schema: { type: 'string', enum: ['true'], examples: ['true'] },
  },
} as const

/** The name of a header's component: `x-request-id` is `XRequestId`. */
export function componentName(header: string): string {
  return header.replaceAll(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase())
}

/** Headers as components. */
export function byComponentName<T>(headers: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).map(([name, each]) => [componentName(name), each]))
}
