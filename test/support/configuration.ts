// Generates docs/configuration.md and .env.example from the table of variables.
import { variables } from '#core/config/help.ts'
import { isReadBy, requiredVariables } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import { isReread, SECRET_NAMES } from '#core/config/secret-files.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from '#core/config/variables.ts'

const PROCESSES = ['api', 'webhooks', 'worker', 'dashboard'] as const satisfies ProcessName[]

/** Sections of the page. A test fails if a variable is in no section or in two sections. */
const GROUPS: readonly (readonly [title: string, names: readonly VariableName[]])[] = [
  [
    'Database and queue',
    [
      'DATABASE_URL',
      'DATABASE_POOL',
      'ALLOW_NEWER_DATABASE',
      'SYNCHRONOUS_STANDBY',
      'WITNESS_URL',
      'REDIS_URL',
      'QUEUE',
      'QUEUE_DATABASE_URL',
      'ACCEPTED_MAX',
      'QUEUES',
      'RESTORED_DATABASE_URL',
      'OLD_DATABASE_URL',
    ],
  ],
  ['Secrets', ['ENCRYPTION_KEY', 'ADDRESS_KEY']],
  [
    'Payments: Stripe',
    [
      'STRIPE_SECRET_KEY',
      'STRIPE_WEBHOOK_SECRET',
      'STRIPE_API_BASE',
      'STRIPE_TEST_SECRET_KEY',
      'STRIPE_TEST_WEBHOOK_SECRET',
      'STRIPE_TEST_API_BASE',
    ],
  ],
  [
    'Addresses',
    [
      'API_URL',
      'WEBHOOKS_URL',
      'DASHBOARD_URL',
      'HOST',
      'API_PORT',
      'WEBHOOKS_PORT',
      'DASHBOARD_PORT',
      'METRICS_HOST',
      'METRICS_PORT',
      'TRUSTED_PROXIES',
      'REQUEST_TIMEOUT_MS',
      'SHUTDOWN_DELAY_S',
      'SHUTDOWN_TIMEOUT_S',
    ],
  ],
  [
    'Email',
    [
      'SMTP_URL',
      'SMTP_CONNECTIONS',
      'EMAIL_FROM',
      'SYSTEM_EMAIL_FROM',
      'EMAIL_FROM_DOMAINS',
      'EMAIL_HEADERS_ALLOWED',
      'EMAIL_WEBHOOK_SECRET',
      'DKIM_DOMAIN',
      'DKIM_SELECTOR',
      'DKIM_PRIVATE_KEY',
    ],
  ],
  ['SMS', ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN', 'TWILIO_FROM', 'TWILIO_API_BASE', 'SMS_COUNTRIES']],
  ['AI tasks', ['AI_BASE_URL', 'AI_API_KEY', 'AI_MODEL', 'AI_MAX_TOKENS_FIELD']],
  ['Events out', ['WEBHOOKS_ALLOW_CIDRS', 'DELIVERY_CONCURRENCY', 'WEBHOOK_RETRY_SCHEDULE_S']],
  [
    'Limits and sizes',
    [
      'RATE_LIMIT_RPS',
      'RATE_LIMIT_BURST',
      'RATE_LIMIT_TENANT_RPS',
      'RATE_LIMIT_TENANT_BURST',
      'MESSAGES_PER_MINUTE',
      'MESSAGES_PER_DESTINATION_HOUR',
      'WORKER_CONCURRENCY',
      'TENANT_WINDOW',
      'DISABLED_AREAS',
    ],
  ],
  [
    'Retention and recurring work',
    [
      'RETENTION_DAYS',
      'EVENT_RETENTION_DAYS',
      'MESSAGE_RETENTION_DAYS',
      'REQUIRES_ACTION_TTL_S',
      'KYC_TTL_DAYS',
      'AUDIT_EVERY_S',
      'RECONCILE_EVERY_S',
      'RECONCILE_AFTER_S',
      'COMPLETENESS_EVERY_S',
    ],
  ],
  ['Log', ['LOG_LEVEL', 'LOG_REQUESTS']],
  [
    'Traces',
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'OTEL_EXPORTER_OTLP_HEADERS',
      'OTEL_SERVICE_NAME',
      'OTEL_RESOURCE_ATTRIBUTES',
      'OTEL_TRACES_SAMPLER',
      'OTEL_TRACES_SAMPLER_ARG',
      'TRACES_TRUSTED_CALLERS',
      'TRACES_PER_SECOND',
    ],
  ],
  [
    'Development',
    [
      'NODE_ENV',
      'ALLOW_EMULATORS',
      'EMULATED',
      'EMULATOR_PORT',
      'TWILIO_EMULATOR_PORT',
      'SMTP_EMULATOR_PORT',
      'INBOX_PORT',
      'AI_EMULATOR_PORT',
      'EMULATOR_EVENTS',
      'DATA_DIR',
    ],
  ],
]

/** Production settings that neither the default nor the description explains. */
const IN_PRODUCTION: Partial<Record<VariableName, string>> = {
  DATABASE_URL: 'a login user for each process: see [Database](guides/operations.md#database)',
  DATABASE_POOL: 'the sum over all processes stays below `max_connections`',
  SYNCHRONOUS_STANDBY: '`true` if PostgreSQL waits for a standby with each commit',
  WITNESS_URL: 'set it: the database, Redis and this place should not be lost together',
  REDIS_URL: 'needed, unless `QUEUE=postgres`',
  QUEUES: 'each queue is served by some worker',
  ENCRYPTION_KEY: 'the same value in each process; back it up',
  ADDRESS_KEY: 'the same value in each process; back it up',
  STRIPE_SECRET_KEY: 'a live key, restricted if possible',
  STRIPE_WEBHOOK_SECRET: 'that of the endpoint at `WEBHOOKS_URL`',
  STRIPE_API_BASE: 'unset',
  API_URL: 'set it',
  WEBHOOKS_URL: 'set it',
  DASHBOARD_URL: 'set it, with `https:`',
  HOST: '`0.0.0.0` in a container',
  SHUTDOWN_DELAY_S: 'longer than your load balancer needs to notice',
  SHUTDOWN_TIMEOUT_S: 'less than the time after which your supervisor kills a worker, by 15 seconds',
  METRICS_HOST: '`0.0.0.0` in a container; never public',
  TRUSTED_PROXIES: 'the networks of your proxies',
  SMTP_URL: 'set it to send email; TLS is required',
  EMAIL_FROM: 'set it to send email',
  EMAIL_WEBHOOK_SECRET: 'set it if your relay reports bounces',
  TWILIO_ACCOUNT_SID: 'set it to send SMS',
  TWILIO_AUTH_TOKEN: 'set it to send SMS',
  TWILIO_FROM: 'set it to send SMS',
  TWILIO_API_BASE: 'unset',
  AI_BASE_URL: 'set it for AI tasks',
  AI_API_KEY: 'set it for AI tasks',
  NODE_ENV: '`production`',
  ALLOW_EMULATORS: 'unset',
  EMULATED: 'unset',
}

/** The variables that most installations set. */
const ESSENTIAL = [
  'DATABASE_URL',
  'REDIS_URL',
  'ENCRYPTION_KEY',
  'ADDRESS_KEY',
  'STRIPE_SECRET_KEY',
  'STRIPE_WEBHOOK_SECRET',
  'API_URL',
  'WEBHOOKS_URL',
  'DASHBOARD_URL',
] as const satisfies VariableName[]

const BY_NAME = new Map(variables().map((variable) => [variable.name, variable]))

/** The text of docs/configuration.md. */
export function configurationPage(): string {
  const sections = GROUPS.map(([title, names]) => {
    const rows = names.map((name) => {
      const { about, default_value } = BY_NAME.get(name)!
      const cells = [
        `\`${name}\``,
        about.replaceAll('|', '\\|'),
        default_value === '' ? '' : `\`${default_value}\``,
        processesThatNeed(name),
        inProduction(name),
      ]
      return `| ${cells.join(' | ')} |`
    })
    const head = ['variable', 'what it is for', 'default', 'needed by', 'in production']
    const table = [`| ${head.join(' | ')} |`, `|${'---|'.repeat(head.length)}`, ...rows]
    return `## ${title}\n\n${table.join('\n')}\n`
  })
  return `# Configuration

Every process reads its configuration from environment variables, and from a \`.env\` file in the working directory for what is unset. A
wrong or missing value stops the process with a message that names the variable and an example. Each process lists the variables that it
reads with \`--help\`, for example \`npm run worker -- --help\`. \`npm start\` needs none of them: it starts embedded servers and emulators for
what is not configured. \`.env.example\` has the nine that most installations set.

Each secret can be in a file instead: \`STRIPE_SECRET_KEY_FILE\` names the file with the value of \`STRIPE_SECRET_KEY\`. After SIGHUP, a running
process uses new values of ${sentence(SECRET_NAMES.filter(isReread))}. New values of
${sentence(SECRET_NAMES.filter((name) => !isReread(name)))} need a restart. [Secrets](guides/operations.md#secrets) says how to rotate each.

"Needed by" names the processes that do not start without the variable. The dashboard serves the routes of the API and needs what the API
needs.

<!-- Generated from src/core/config: npx vitest run test/help.test.ts -u -->

${sections.join('\n')}`
}

/** The text of .env.example. */
export function exampleEnvironment(): string {
  const parts = ESSENTIAL.map((name) => {
    const { about, example } = BY_NAME.get(name)!
    return `${wrapped(`${about[0]!.toUpperCase()}${about.slice(1)}.`.replaceAll('`', ''))}\n# ${name}=${example}\n`
  })
  return `# The nine variables that most installations set; docs/configuration.md has all. Copy this file to .env and remove the
# "# " before those that you set. npm start needs none of them. In production also set NODE_ENV=production.

${parts.join('\n')}`
}

/** Names in a sentence. */
function sentence(names: readonly VariableName[]): string {
  return new Intl.ListFormat('en').format(names.map((name) => `\`${name}\``))
}

/** The processes that need a variable, with their queues if a worker needs the variable only for some queues. */
function processesThatNeed(name: VariableName): string {
  const { 5: of_queues = [] } = VARIABLES[name] as { 5?: readonly string[] }
  const queues = [...new Set(of_queues)].map((queue) => `\`${queue}\``).join(', ')
  return PROCESSES.filter((process) => requiredVariables(process).includes(name))
    .map((process) => (process === 'worker' && queues !== '' ? `worker (of ${queues})` : process))
    .join(', ')
}

function inProduction(name: VariableName): string {
  const by_start_alone = PROCESSES.every((process) => !isReadBy(name, process))
  return IN_PRODUCTION[name] ?? (by_start_alone && name !== 'DATA_DIR' ? 'not used' : '')
}

/** A comment with lines of at most 120 columns. */
function wrapped(text: string): string {
  const lines = ['#']
  for (const word of text.split(' ')) {
    if (lines.at(-1)!.length + word.length + 1 > 120) lines.push('#')
    lines[lines.length - 1] += ` ${word}`
  }
  return lines.join('\n')
}

/** Variables that are in no section or in several sections. */
export function misplacedVariables(): VariableName[] {
  const grouped = GROUPS.flatMap(([, names]) => names)
  return VARIABLE_NAMES.filter((name) => grouped.filter((other) => other === name).length !== 1)
}
