// Every variable that configures Sluice: what it must be, an example, what it is for and which processes read it.
import { isIP } from 'node:net'
import { z } from 'zod'
import { parseRedisUrl } from '../redis-url.ts'
import { DASHBOARD_VARIABLES } from './dashboard.ts'
import { EVENT_VARIABLES } from './events.ts'
import { MESSAGING_VARIABLES } from './messaging.ts'
import { PROCESSOR_QUEUES } from './providers.ts'
import { QUEUES } from './queues.ts'
import { parseRetention } from './retention.ts'
import { baseUrl, commaList, count, optionalPort, port, type VariableRow } from './row.ts'

const EVERYBODY = ['api', 'webhooks', 'worker', 'migrate', 'commands'] as const
const SERVICES = ['api', 'webhooks', 'worker'] as const
const LISTENERS = ['api', 'webhooks'] as const

/** Where each process answers `/metrics` unless METRICS_PORT says otherwise. */
export const METRICS_PORTS = {
  api: 9464,
  webhooks: 9465,
  worker: 9466,
  dashboard: 9467,
  start: 9464,
} as const

const seconds = (standard: number) => z.coerce.number().int().min(0).max(1_000_000).default(standard)

/** In the order in which `--help` and the README show them. */
export const VARIABLES = {
  DATABASE_URL: [
    z
      .string()
      .refine((text) => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text), {
        error: 'must be postgres://user:password@host:port/database',
      })
      .optional(),
    'postgres://sluice:secret@127.0.0.1:5432/sluice',
    'PostgreSQL, 18 or newer. Only `npm start` can do without, and brings one, which commands in the same folder use',
    EVERYBODY,
    SERVICES,
  ],
  DATABASE_POOL: [
    count(10, 500),
    '10',
    'connections to PostgreSQL, at most, of each process; in the API a quarter of them, two at least, is for lists',
    SERVICES,
  ],
  ALLOW_NEWER_DATABASE: [
    z.stringbool().default(false),
    'true',
    'start although the database was migrated by a newer version, as in a rollback',
    SERVICES,
  ],
  REDIS_URL: [
    z
      .string()
      .refine((text) => parseRedisUrl(text) !== undefined, {
        error:
          'must be redis://host:port, redis+sentinel://host:port,.../primary or redis+cluster://host:port,...',
      })
      .optional(),
    'redis://127.0.0.1:6379',
    'Redis or Valkey, `maxmemory-policy noeviction`: `redis://host:port`, `redis+sentinel://host:port,.../primary` or `redis+cluster://host:port,...`; `rediss` for TLS, `user:password@` before the host. `npm start` without it runs one that is on the PATH',
    [...SERVICES, 'migrate'],
  ],
  QUEUE: [
    z.enum(['redis', 'postgres']).optional(),
    'redis',
    'where BullMQ works: `redis` or `postgres`. Unset: Redis where `REDIS_URL` is set, and always in production',
    [...SERVICES, 'migrate'],
  ],
  ENCRYPTION_KEY: [
    z
      .string()
      .regex(/^[A-Za-z0-9+/]{43}=(\s*,\s*[A-Za-z0-9+/]{43}=)*$/, {
        error: 'must be 32 bytes, base64; several, the newest first, separated by commas',
      })
      .optional(),
    '<what openssl rand -base64 32 prints>',
    `32 bytes, base64. Make one with \`openssl rand -base64 32\` and give the same to api, worker and dashboard. To rotate, put a new one in front, separated by commas: the first seals, all open. The old one may go when no open payment or call needs it`,
    ['api', 'worker'],
    ['api', 'worker'],
  ],
  STRIPE_SECRET_KEY: [
    z
      .string()
      .regex(/^(sk|rk)_\S{5,}$/, { error: 'must be a secret or restricted key: sk_... or rk_...' })
      .optional(),
    'sk_test_...',
    'key of the account at Stripe; `npm start` without it runs a Stripe emulator',
    ['worker'],
    ['worker'],
    PROCESSOR_QUEUES,
  ],
  STRIPE_WEBHOOK_SECRET: [
    z
      .string()
      .regex(/^\s*whsec_[^\s,]{4,}(\s*,\s*whsec_[^\s,]{4,})*\s*$/, {
        error: 'must be a signing secret, whsec_...; several, during rotation, separated by commas',
      })
      .optional(),
    'whsec_newer,whsec_older',
    `signing secret of the endpoint at Stripe; during rotation both, separated by commas`,
    ['webhooks'],
    ['webhooks'],
  ],
  STRIPE_API_BASE: [
    baseUrl.optional(),
    'https://api.stripe.com',
    "another server that speaks Stripe's API; set, no emulator runs",
    ['worker'],
  ],
  AI_BASE_URL: [
    baseUrl.optional(),
    'https://api.openai.com/v1',
    "server for AI tasks that speaks OpenAI's API, with the path before `/chat/completions`; `npm start` without it and AI_API_KEY runs an emulator. In production the area `ai` is not deployed without both",
    ['api', 'worker'],
  ],
  AI_API_KEY: [
    z
      .string()
      .regex(/^[\x21-\x7e]+$/, { error: 'must be visible ASCII characters' })
      .optional(),
    'sk-...',
    'key of that server; any text where it asks for none. The API only has to know that there is one: any text will do there',
    ['api', 'worker'],
  ],
  AI_MODEL: [
    z.string().min(1).max(255).default('gpt-5-mini'),
    'gpt-5-mini',
    'model of AI tasks that name none',
    ['worker'],
  ],
  AI_MAX_TOKENS_FIELD: [
    z.enum(['max_completion_tokens', 'max_tokens']).default('max_completion_tokens'),
    'max_tokens',
    'what that server calls the limit of output tokens',
    ['worker'],
  ],
  ...MESSAGING_VARIABLES,
  ...EVENT_VARIABLES,
  HOST: [
    z.string().min(1).default('127.0.0.1'),
    '0.0.0.0',
    'address of this machine on which the API, the webhooks host and the dashboard listen; 0.0.0.0: all',
    LISTENERS,
  ],
  API_PORT: [port(3000), '3000', 'port of the API; 0: a free one, as with every port', ['api']],
  WEBHOOKS_PORT: [port(3001), '3001', 'port of the webhooks host', LISTENERS],
  API_URL: [
    baseUrl.optional(),
    'https://api.example.com',
    'where clients reach the API; in the OpenAPI document and in links',
    ['api'],
  ],
  WEBHOOKS_URL: [
    baseUrl.optional(),
    'https://hooks.example.com',
    'where providers reach the webhooks host; in its OpenAPI document, the Stripe emulator sends there, and Twilio is told to call there and signs what it calls',
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
    "areas of the API that are switched off, separated by commas; the guide to operations, the log of the API's start and `/readyz` name all of them",
    ['api'],
  ],
  RATE_LIMIT_RPS: [count(500), '500', 'requests a second of each API key', ['api']],
  RATE_LIMIT_BURST: [count(2000), '2000', 'requests at once of each API key', ['api']],
  RETENTION_DAYS: [
    z.string().default('').transform(parseRetention),
    'jobs:90,notifications:90,ai_tasks:90',
    'days that finished jobs, notifications and the outputs of AI tasks are kept, each 31 at least. Payments, refunds, customers and the ledger are kept for ever',
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
    'how long a buyer has to complete a payment; then it is given up',
    ['worker'],
  ],
  KYC_TTL_DAYS: [count(30, 365), '30', 'idle days after which a verification is given up', ['worker']],
  TRUSTED_PROXIES: [
    commaList.refine((parts) => parts.every(isNetwork), {
      error: 'must be addresses or networks, separated by commas',
    }),
    '10.0.0.0/8,127.0.0.1',
    'proxies whose `X-Forwarded-For` is believed: addresses or networks (CIDR), separated by commas; unset: none',
    LISTENERS,
  ],
  REQUEST_TIMEOUT_MS: [count(30_000), '30000', 'how long a request may take to arrive', LISTENERS],
  QUEUES: [
    commaList,
    'payments,payouts',
    `queues that a worker serves, separated by commas: ${QUEUES.map((name) => `\`${name}\``).join(', ')}; unset: all`,
    ['worker'],
  ],
  WORKER_CONCURRENCY: [count(100, 5000), '100', 'jobs of a queue that a worker performs at once', ['worker']],
  TENANT_WINDOW: [
    count(256),
    '256',
    'jobs of a tenant that are rung at once; what is beyond waits for its turn',
    SERVICES,
  ],
  AUDIT_EVERY_S: [count(3600), '3600', 'how often a worker audits what changed', ['worker']],
  RECONCILE_EVERY_S: [
    count(10),
    '10',
    'how often the processor is asked about what stands still',
    ['worker'],
  ],
  RECONCILE_AFTER_S: [
    seconds(300),
    '300',
    'how long its events may take to arrive by themselves before they are read from its list',
    ['worker'],
  ],
  LOG_LEVEL: [
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'info',
    'the least that is logged',
    SERVICES,
  ],
  LOG_REQUESTS: [
    z.coerce.number().min(0).max(1).optional(),
    '0.1',
    'the part of the requests of which a line is logged, with those of the jobs that they ask for, 0 to 1; failures (5xx) always are. Unset: 0.01 in production, else 1',
    SERVICES,
  ],
  NODE_ENV: [
    z.enum(['development', 'test', 'production']).default('development'),
    'production',
    '`production` refuses embedded servers and emulators',
    EVERYBODY,
  ],
  ALLOW_EMULATORS: [
    z.stringbool().default(false),
    'true',
    '`npm start` takes embedded servers and emulators also in production',
    ['start'],
  ],
  EMULATOR_PORT: [port(3010), '3010', 'port of the Stripe emulator', ['start']],
  TWILIO_EMULATOR_PORT: [port(3011), '3011', 'port of the Twilio emulator', ['start']],
  SMTP_EMULATOR_PORT: [port(3012), '3012', 'port of the SMTP emulator', ['start']],
  INBOX_PORT: [port(3013), '3013', 'port of the page with what the SMTP emulator received', ['start']],
  AI_EMULATOR_PORT: [port(3014), '3014', 'port of the AI emulator', ['start']],
  EMULATOR_EVENTS: [
    z.enum(['needed', 'all']).default('needed'),
    'all',
    'events that the Stripe emulator sends: those of `npm run stripe -- events`, or all',
    ['start'],
  ],
  DATA_DIR: [
    z.string().min(1).default('.data'),
    '.data',
    'folder of `npm start`: embedded servers, secrets, log, `dev.json`',
    ['commands', 'migrate', 'start'],
  ],
} as const satisfies Record<string, VariableRow>

export type VariableName = keyof typeof VARIABLES

/** The names of the table, in its order. */
export const VARIABLE_NAMES = Object.keys(VARIABLES) as readonly VariableName[]

function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  const most = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
  return (
    most > 0 && more.length === 0 && (bits === undefined || (/^[1-9]\d*$/.test(bits) && Number(bits) <= most))
  )
}
