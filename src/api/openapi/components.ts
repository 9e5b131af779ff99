// Shared components of the OpenAPI document: request headers, response headers and authentication.
import { AREAS } from '#domain/areas.ts'

export const SECURITY_SCHEMES = {
  api_key: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'sk_live_<tenant>_<random32>',
    description: [
      'An API key of the tenant: `Authorization: Bearer sk_live_<tenant>_<random32>`. The key selects the tenant, and its scopes say what it may do. Reading customers needs no scope. A key `sk_test_<tenant>_<random32>` selects the twin of the tenant in test mode.',
      ...Object.values(AREAS).flatMap(({ scopes }) =>
        Object.entries(scopes).map(([scope, may]) => `- \`${scope}\`: ${may}`),
      ),
    ].join('\n'),
  },
} as const

const REQUEST_ID = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' }

/** Request headers, by name. They have no examples: the reference would send an example with every request. */
export const PARAMETERS = {
  'x-request-id': {
    name: 'x-request-id',
    in: 'header',
    required: false,
    description:
      'Your own id for this request. It is returned in the answer and appears in our logs. An id in another format is ignored, and we generate one.',
    schema: REQUEST_ID,
  },
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'You may send this instead of `idempotency_key` in the body, for example `order-17-payment`. (For a create, this document requires the field; the server accepts either.) If you send both, they must be equal.',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    required: false,
    description:
      'How long to wait for the provider (RFC 7240): `wait=N`, 0 to 30 seconds, or `respond-async` for an answer at once. Together, `respond-async, wait=N`: wait up to N seconds, then 202. Each operation says what happens without this header. The feed of events takes `wait=N` and waits for events.',
    schema: { type: 'string' },
  },
} as const

/** Response headers, by name. */
export const HEADERS = {
  'x-request-id': {
    description: 'The id of this request: yours, or one that we generated. Quote it when you ask for help.',
    schema: { ...REQUEST_ID, examples: ['0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10'] },
  },
  RateLimit: {
    description:
      'How many requests are left (`r`) for the key (`default`) and for all keys of its tenant together (`tenant`), and in how many seconds the limit is full again (`t`).',
    schema: { type: 'string', examples: ['"default";r=1999;t=1, "tenant";r=7999;t=1'] },
  },
  'RateLimit-Policy': {
    description:
      'How many requests you may send at once (`q`), and over how many seconds they refill (`w`), for the key (`default`) and for all keys of its tenant together (`tenant`).',
    schema: { type: 'string', examples: ['"default";q=2000;w=4, "tenant";q=8000;w=4'] },
  },
  'Retry-After': {
    description: 'Seconds to wait before the next attempt.',
    schema: { type: 'integer', format: 'int32', minimum: 1, examples: [1] },
  },
  'WWW-Authenticate': {
    description: 'How to authenticate.',
    schema: { type: 'string', examples: ['Bearer'] },
  },
  Link: {
    description: 'The URL of the next page. Sent if this page is full; the feed of events always sends it.',
    schema: {
      type: 'string',
      examples: ['</v1/payments?limit=25&before=2026-11-20T10%3A15%3A30.123456Z>; rel="next"'],
    },
  },
  Location: {
    description: 'The URL of the result.',
    schema: { type: 'string', examples: ['/v1/payments/0198f6f0-1234-7000-8000-123456789abc'] },
  },
  'Preference-Applied': {
    description: 'The preferences that were applied.',
    schema: { type: 'string', examples: ['wait=5'] },
  },
  'Idempotent-Replayed': {
    description:
      '`true` if an earlier request with the same key was accepted: this is the answer to that request.',
    schema: { type: 'string', enum: ['true'], examples: ['true'] },
  },
} as const

/** The component name of a header: `XRequestId` for `x-request-id`. */
export function componentName(header: string): string {
  return header.replaceAll(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase())
}

/** Headers as components. */
export function byComponentName<T>(headers: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).map(([name, each]) => [componentName(name), each]))
}
