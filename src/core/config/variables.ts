// Every variable of Sluice: its schema, an example, its purpose and the processes that read it.
import { isIP } from 'node:net'
import { z } from 'zod'
import { DASHBOARD_VARIABLES } from './dashboard.ts'
import { DATABASE_VARIABLES } from './database.ts'
import { DEVELOPMENT_VARIABLES } from './development.ts'
import { EVENT_VARIABLES } from './events.ts'
import { LIMIT_VARIABLES } from './limits.ts'
import { MESSAGING_VARIABLES } from './messaging.ts'
import { PROCESSOR_QUEUES } from './providers.ts'
import { QUEUES } from './queues.ts'
import { parseRetention } from './retention.ts'
import {
  ALL_PROCESSES,
  baseUrl,
  commaList,
  count,
  optionalPort,
  port,
  SECRETS,
  SERVICES,
  type VariableRow,
} from './row.ts'
import { TELEMETRY_VARIABLES } from './telemetry.ts'

const LISTENERS = ['api', 'webhooks'] as const

/** The default port of `/metrics` of each process. */
export const METRICS_PORTS = {
  api: 9464,
  webhooks: 9465,
  worker: 9466,
  dashboard: 9467,
  start: 9464,
} as const

const seconds = (default_value: number) =>
  z.coerce.number().int().min(0).max(1_000_000).default(default_value)

const SIGNING_SECRETS = /^\s*whsec_[^\s,]{4,}(\s*,\s*whsec_[^\s,]{4,})*\s*$/
const SIGNING_SECRETS_ERROR =
  'must be a signing secret, whsec_ and at least four characters; list several during a rotation, separated by commas'

/** In the order of `--help`. */
export const VARIABLES = {
  ...DATABASE_VARIABLES,
  ENCRYPTION_KEY: [
    z
      .string()
      .regex(/^[A-Za-z0-9+/]{43}=(\s*,\s*[A-Za-z0-9+/]{43}=)*$/, {
        error: 'must be 32 bytes in base64; list several keys with the newest first, separated by commas',
      })
      .optional()
      .register(SECRETS, { is_reread: true }),
    '<what openssl rand -base64 32 prints>',
    `32 bytes, base64. Generate one with \`openssl rand -base64 32\` and give the same one to api, worker and dashboard. To rotate it, add a new one after the old one, separated by a comma, in all processes; then put the new one in front: the first encrypts, all of them decrypt. Remove the old one when no open payment or call needs it`,
    ['api', 'worker'],
    ['api', 'worker'],
  ],
  STRIPE_SECRET_KEY: [
    z
      .string()
      .regex(/^(sk|rk)_\S{5,}$/, { error: 'must be a secret or restricted key, sk_... or rk_...' })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'sk_test_51AbCdEfGhIjKlMnOp',
    'secret key of the Stripe account; without it, `npm start` runs a Stripe emulator',
    ['worker'],
    ['worker'],
    PROCESSOR_QUEUES,
  ],
  STRIPE_WEBHOOK_SECRET: [
    z
      .string()
      .regex(SIGNING_SECRETS, { error: SIGNING_SECRETS_ERROR })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'whsec_newer,whsec_older',
    `signing secret of the endpoint at Stripe; during rotation, both, separated by a comma`,
    ['webhooks'],
    ['webhooks'],
  ],
  STRIPE_API_BASE: [
    baseUrl.optional(),
    'https://api.stripe.com',
    "another server that speaks Stripe's API; if it is set, no emulator runs",
    ['worker'],
  ],
  STRIPE_TEST_SECRET_KEY: [
    z
      .string()
      .regex(/^(sk|rk)_test_\S{5,}$/, { error: 'must be a key of test mode, sk_test_... or rk_test_...' })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'sk_test_51AbCdEfGhIjKlMnOp',
    'key of the test mode of the Stripe account, for tenants in test mode; another key than STRIPE_SECRET_KEY. Give the same one to all workers. Without it, a sandbox in the database takes the place of Stripe in test mode',
    ['worker'],
  ],
  STRIPE_TEST_WEBHOOK_SECRET: [
    z
      .string()
      .regex(SIGNING_SECRETS, { error: SIGNING_SECRETS_ERROR })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'whsec_newer,whsec_older',
    "signing secret of the endpoint in Stripe's test mode; during rotation, both, separated by a comma. Its notifications reach only tenants in test mode, and those with STRIPE_WEBHOOK_SECRET only the others",
    ['webhooks'],
  ],
  STRIPE_TEST_API_BASE: [
    baseUrl.optional(),
    'https://api.stripe.com',
    "another server that speaks Stripe's API, for test mode",
    ['worker'],
  ],
  AI_BASE_URL: [
    baseUrl.optional(),
    'https://api.openai.com/v1',
    "server for AI tasks that speaks OpenAI's API, with the path before `/chat/completions`; without it and AI_API_KEY, `npm start` runs an emulator. In production, the area `ai` is not deployed without both",
    ['api', 'worker'],
  ],
  AI_API_KEY: [
    z
      .string()
      .regex(/^[\x21-\x7e]+$/, { error: 'must be visible ASCII characters' })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'sk-proj-AbCdEfGhIjKlMnOp',
    'key for that server; any text if the server needs none. The API only needs to know that there is a key: any text will do there',
    ['api', 'worker'],
  ],
  AI_MODEL: [
    z.string().min(1).max(255).default('gpt-5-mini'),
    'gpt-5-mini',
    'model for AI tasks that name none',
    ['worker'],
  ],
  AI_MAX_TOKENS_FIELD: [
    z.enum(['max_completion_tokens', 'max_tokens']).default('max_completion_tokens'),
    'max_tokens',
    "that server's name for the limit of output tokens",
    ['worker'],
  ],
  ...MESSAGING_VARIABLES,
  ...EVENT_VARIABLES,
  HOST: [
    z.string().min(1).default('127.0.0.1'),
    '0.0.0.0',
    'address of this machine on which the API, the webhooks host and the dashboard listen; 0.0.0.0 means all addresses',
    LISTENERS,
  ],
  API_PORT: [port(3000), '3000', 'port of the API; 0 means any free port, as with every port', ['api']],
  WEBHOOKS_PORT: [port(3001), '3001', 'port of the webhooks host', LISTENERS],
  API_URL: [
    baseUrl.optional(),
    'https://api.example.com',
    'address where clients reach the API; used in the OpenAPI document and in links',
    ['api'],
  ],
  WEBHOOKS_URL: [
    // Twilio does not call hosts with underscores.
    baseUrl
      .refine((url) => !new URL(url).hostname.includes('_'), {
        error: 'must have a host without underscores',
      })
      .optional(),
    'https://hooks.example.com',
    'address where providers reach the webhooks host. Its OpenAPI document shows it, the Stripe emulator sends to it, and Twilio calls it and signs it',
    ['api', 'webhooks', 'worker', 'start'],
  ],
  ...DASHBOARD_VARIABLES,
  METRICS_HOST: [
    z.string().min(1).default('127.0.0.1'),
    '127.0.0.1',
    'address on which each process answers `/metrics` (Prometheus) and `/readyz`',
    SERVICES,
  ],
  METRICS_PORT: [
    optionalPort,
    '9464',
    `port of \`/metrics\` and \`/readyz\`. Unset: ${Object.entries(METRICS_PORTS)
      .map(([name, port]) => `${port} (${name})`)
      .join(', ')}`,
    SERVICES,
  ],
  DISABLED_AREAS: [
    commaList,
    'payments',
    "areas of the API to switch off, separated by commas; the operations guide, the log of the API's start and `/readyz` name all areas",
    ['api', 'worker'],
  ],
  ...LIMIT_VARIABLES,
  RETENTION_DAYS: [
    z.string().default('').transform(parseRetention),
    'jobs:90,notifications:90,ai_tasks:90',
    'retention of finished jobs, notifications and the outputs of AI tasks in days, at least 31 each. Payments, refunds, customers and the ledger are retained for ever',
    ['worker'],
  ],
  REQUIRES_ACTION_TTL_S: [
    z.coerce
      .number()
      .int()
      .min(60)
      .max(30 * 24 * 3600)
      .default(24 * 3600),
    '86400',
    'how long a buyer has to complete a payment; after that, it is canceled',
    ['worker'],
  ],
  KYC_TTL_DAYS: [count(30, 365), '30', 'idle days after which an open verification is given up', ['worker']],
  TRUSTED_PROXIES: [
    commaList.refine((parts) => parts.every(isNetwork), {
      error: 'must be addresses or networks, separated by commas',
    }),
    '10.0.0.0/8,127.0.0.1',
    'proxies whose `X-Forwarded-For` is trusted: addresses or networks (CIDR), separated by commas; unset: none',
    LISTENERS,
  ],
  REQUEST_TIMEOUT_MS: [count(30_000), '30000', 'how long a request may take to arrive', LISTENERS],
  SHUTDOWN_DELAY_S: [
    z.coerce.number().int().min(0).max(600).optional(),
    '5',
    'seconds that a process goes on serving after SIGTERM, with `/readyz` at 503, before it closes. Unset: 5 in production, otherwise 0, as with `npm start`',
    LISTENERS,
  ],
  SHUTDOWN_TIMEOUT_S: [
    z.coerce.number().int().min(0).max(600).optional(),
    '30',
    'seconds for which provider calls in progress go on after a worker got SIGTERM. Then they are aborted, and another worker sends them again. Unset: the longest limit of a call of its queues, which is 120 with `ai`, 60 with `messages`, otherwise 15. With `npm start`, 10',
    ['worker'],
  ],
  QUEUES: [
    commaList,
    'payments,payouts',
    `queues that the worker serves, separated by commas: ${QUEUES.map((name) => `\`${name}\``).join(', ')}; unset: all`,
    ['worker'],
  ],
  WORKER_CONCURRENCY: [count(100, 5000), '100', 'jobs of each queue that a worker runs at once', ['worker']],
  TENANT_WINDOW: [
    count(256),
    '256',
    'wake-ups of a tenant in the queue at once; further jobs wait for the sweep',
    SERVICES,
  ],
  AUDIT_EVERY_S: [count(3600), '3600', 'seconds between audits of what has changed', ['worker']],
  RECONCILE_EVERY_S: [
    count(10),
    '10',
    'seconds between lookups of stale resources at the processor; a worker that has nothing to do waits six times as long, up to 30 seconds',
    ['worker'],
  ],
  RECONCILE_AFTER_S: [
    seconds(300),
    '300',
    "seconds to wait for the processor's events to arrive before they are read from its list",
    ['worker'],
  ],
  COMPLETENESS_EVERY_S: [
    count(86_400),
    '86400',
    "seconds between readings of the processor's lists of objects of the last 48 hours, which find what no event reported",
    ['worker'],
  ],
  ...TELEMETRY_VARIABLES,
  NODE_ENV: [
    z.enum(['development', 'test', 'production']).default('development'),
    'production',
    '`production` refuses embedded servers and emulators',
    ALL_PROCESSES,
  ],
  ...DEVELOPMENT_VARIABLES,
} as const satisfies Record<string, VariableRow>

export type VariableName = keyof typeof VARIABLES

/** The names of the table, in its order. */
export const VARIABLE_NAMES = Object.keys(VARIABLES) as readonly VariableName[]

function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  const max_bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
  return (
    max_bits > 0 &&
    more.length === 0 &&
    (bits === undefined || (/^[1-9]\d*$/.test(bits) && Number(bits) <= max_bits))
  )
}
