// The fuzzed system: two tenants, their records, and a summary of the stored data.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { LOOKUP_KIND } from '#domain/notifications/notification.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { readDocument } from '#test/documentation.ts'
import { createKey } from '#test/environment.ts'
import type { Provider } from '#test/providers.ts'
import type { Process } from '#test/process.ts'
import type { Deployment } from '#test/deployment.ts'
import { stored } from '#test/refusals.ts'
import { operationsUrlOf, readMetric } from '#test/served-metrics.ts'
import type { Notifier } from './notifications/notice.ts'
import { PLACEHOLDER } from './requests.ts'
import { createFixtures, inAnHour } from './fixtures.ts'
import { INJECTED } from './values.ts'
import type { Sent } from './wire.ts'

/** Part of every text of the other tenant. No answer may contain it. */
const OTHER_TENANT_MARK = 'belongs-to-another-tenant'
/** Pause between two reads of a system whose jobs are not visible. */
const QUIET_MS = 150

/** Variables of a fuzzed system: short timeouts, no message limits, and email webhooks. */
export const FUZZED_VARIABLES = {
  REQUEST_TIMEOUT_MS: '2000',
  // A delivery has one attempt, which fails at once because no server listens at the URL.
  WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8',
  WEBHOOK_RETRY_SCHEDULE_S: '0',
  MESSAGES_PER_MINUTE: '1000000',
  MESSAGES_PER_DESTINATION_HOUR: '1000000',
  // The heap limit of the scripts in package.json.
  NODE_OPTIONS: '--max-old-space-size=512',
  EMAIL_WEBHOOK_SECRET: `whsec_${randomBytes(32).toString('base64')}`,
}

type Secrets = Record<Notifier['name'], string | undefined>

export type Target = {
  url: string
  document: any
  client: Client
  /** Another tenant; null: there is none. */
  neighbour: Client | null
  /** The webhooks host, and the signing secrets of the providers; null: notifications are not fuzzed. */
  webhooks: { url: string; secrets: Secrets } | null
  /** Texts that only records of the other tenant contain. */
  other_tenant_texts: string[]
  /** The processor, whose control API scenarios use; null: not reachable. */
  processor: Provider | null
  /** The SMS provider, whose control API scenarios use; null: not reachable. */
  sms: Provider | null
  /** Whether the request timeout is short enough to wait for. */
  short_timeout: boolean
  /** Fills the placeholders and creates missing records. */
  fillPlaceholders(sent: Sent): Promise<Sent>
  /** Called after an accepted request: records that it has used up are created again. */
  onAccepted(sent: Sent): void
  /** A summary of the stored data when no work is open. */
  stored(): Promise<string>
  /** Resident memory of the API in bytes; 0 if unknown. */
  memory(): Promise<number>
  /** Number of stored notifications that come neither from the processor nor from a lookup. */
  notifications(): Promise<number>
  /** Problems at the end: contradictions in the books, ended processes, invalid log lines. */
  problems(): Promise<string[]>
}

type Running = { api: Process; others: Process[] }

/** A deployment of processes with a new tenant. `running`: its processes. */
export async function deployedTarget(deployment: Deployment, running: Running): Promise<Target> {
  const { sql, env, client } = deployment
  const neighbour = await createKey(sql, 'neighbour')
  const other = createClient(client.url, neighbour.secret)
  const processor = deployment.provider('stripe')
  const inbox = deployment.provider('smtp')
  // The emulator reports no outcomes by itself: only scenarios report the outcome of an SMS.
  const sms = deployment.provider('twilio')
  await sms.control('POST', '/callbacks', { automatic: false })

  // Parked and unknown jobs are looked up later and change nothing until then.
  async function hasWork(): Promise<boolean> {
    const [row] = await sql<{ open: boolean }[]>`
      select exists (
          select from jobs where finished_at is null
            and run_at < now() + case when tenant_id = ${SYSTEM_TENANT_ID} then interval '0' else interval '5 s' end
) or exists (select from notifications where state = 'waiting')
        or exists (select from event_outbox) or exists (select from webhook_due)
        or exists (select from webhook_recoveries where after_at is not null) as open`
    return row!.open
  }

  async function settled(): Promise<void> {
    for (;;) {
      // The processor is checked first, because its notifications cause work here.
      const { to_come, waiting, sending } = await processor.control('GET', '/webhooks')
      if (to_come + waiting + sending === 0 && !(await hasWork())) return
      await sleep(5)
    }
  }

  return {
    ...(await targetOf(client, other)),
    other_tenant_texts: [OTHER_TENANT_MARK, neighbour.tenant_id],
    processor,
    sms,
    webhooks: {
      url: deployment.webhooks.url,
      secrets: {
        stripe: env['STRIPE_WEBHOOK_SECRET'],
        twilio: env['TWILIO_AUTH_TOKEN'],
        email: env['EMAIL_WEBHOOK_SECRET'],
      },
    },
    short_timeout: Number(env['REQUEST_TIMEOUT_MS'] ?? 30_000) < 10_000,
    async stored() {
      await settled()
      return await stored(deployment)
    },
    async memory() {
      return Number(await readMetric(await operationsUrlOf(running.api), 'process_resident_memory_bytes'))
    },
    async notifications() {
      const [row] = await sql<{ count: number }[]>`
        select count(*) from notifications where event_id !~ '^evt_[A-Za-z0-9]{20,}$' and kind <> ${LOOKUP_KIND}`
      return row!.count
    },
    async problems() {
      const books = await findRemainingProblems(deployment)
      return [
        ...books.map((each) => JSON.stringify(each)),
        ...[running.api, ...running.others].flatMap(invalidLogLines),
        ...(await injectedHeaders(inbox)),
      ]
    },
  }

  // A log consists of JSON lines without secrets.
  function invalidLogLines(process: Process): string[] {
    return process
      .output()
      .split('\n')
      .filter((line) => {
        if (line === '') return false
        try {
          const reported = JSON.parse(line) as { msg?: unknown; level?: unknown }
          return typeof reported.level !== 'number' || reported.msg === 'forged' || line.includes(client.key)
        } catch {
          return true
        }
      })
      .map((line) => `an invalid log line: ${line}`)
  }
}

/** Emails with an injected header. */
async function injectedHeaders(inbox: Provider): Promise<string[]> {
  const emails: { raw: string }[] = await inbox.control('GET', '/messages')
  return emails
    .map(({ raw }) => raw.split('\r\n\r\n', 1)[0]!)
    .filter((head) => new RegExp(`^${INJECTED}:`, 'im').test(head))
    .map((head) => `an email with an injected header: ${head}`)
}

/** A running system. Its stored data is read from its lists. No other client may use the tenants of the keys. */
export async function runningTarget(options: {
  url: string
  key: string
  other_key?: string | undefined
  webhooks_url?: string | undefined
  secrets: Secrets
}): Promise<Target> {
  const url = options.url.replace(/\/+$/, '')
  const client = createClient(url, options.key)
  const other = options.other_key === undefined ? null : createClient(url, options.other_key)
  const { webhooks_url, secrets } = options
  const readLists = async () => {
    const lists = await Promise.all(
      [client, ...(other ? [other] : [])].flatMap((each) => [
        each.get('/v1/payments?limit=100'),
        each.get('/v1/customers?limit=100&deleted=true'),
        each.get('/v1/recipients?limit=100'),
        each.get('/v1/merchants?limit=100'),
        each.get('/v1/payouts?limit=100'),
        each.get('/v1/compliance/kyc?limit=100'),
        each.get('/v1/wallet/top_ups?limit=100'),
        each.get('/v1/disputes?limit=100'),
        each.get('/v1/ai/tasks?limit=100'),
        each.get('/v1/webhook_endpoints?limit=100'),
        each.get('/v1/messages?limit=100'),
        each.get('/v1/messages/suppressions?limit=100'),
        each.get('/v1/messages/templates?limit=100'),
      ]),
    )
    return JSON.stringify(lists.map(({ body }) => body))
  }
  return {
    ...(await targetOf(client, other)),
    other_tenant_texts: [OTHER_TENANT_MARK],
    processor: null,
    sms: null,
    webhooks: webhooks_url === undefined ? null : { url: webhooks_url.replace(/\/+$/, ''), secrets },
    short_timeout: false,
    async stored() {
      // A refund in progress is not visible. The work counts as done when two successive reads are equal.
      for (let before = await readLists(); ;) {
        await sleep(QUIET_MS)
        const now = await readLists()
        if (now === before) return now
        before = now
      }
    },
    memory: () => Promise.resolve(0),
    notifications: () => Promise.resolve(0),
    problems: () => Promise.resolve([]),
  }
}

async function targetOf(
  client: Client,
  other: Client | null,
): Promise<Pick<Target, 'url' | 'document' | 'client' | 'neighbour' | 'fillPlaceholders' | 'onAccepted'>> {
  const document = await readDocument(client)
  const own = createFixtures(client)
  const other_fixtures =
    other &&
    createFixtures(other, {
      payment: { description: OTHER_TENANT_MARK, metadata: { [OTHER_TENANT_MARK]: OTHER_TENANT_MARK } },
      customer: { name: OTHER_TENANT_MARK, email: OTHER_TENANT_MARK, external_id: OTHER_TENANT_MARK },
      record: { metadata: OTHER_TENANT_MARK },
    })

  async function valueOf(name: string): Promise<string> {
    if (name === 'fresh') return freshKey()
    if (name === 'api_key') return client.key
    if (name === 'in_an_hour') return inAnHour()
    const [first, second] = name.split('.') as [string, string | undefined]
    if (first === 'upper') return (await own.find(second!)).toUpperCase()
    if (first === 'other')
      return other_fixtures ? await other_fixtures.find(second!) : '0198f6f0-1234-7000-8000-123456789abd'
    return await own.find(first)
  }

  return {
    url: client.url,
    document,
    client,
    neighbour: other,
    async fillPlaceholders(sent) {
      const { target, headers, body } = sent
      const all = [target, ...headers.map(([, value]) => value), body ?? '']
      const names = new Set(
        all.flatMap((text) => Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name!)),
      )
      const values = new Map<string, string>()
      // In sequence: a payment that two placeholders need is created once.
      for (const name of names) values.set(name, await valueOf(name))
      const fill = (text: string) => text.replaceAll(PLACEHOLDER, (_, name: string) => values.get(name)!)
      return {
        ...sent,
        target: fill(target),
        headers: headers.map(([name, value]) => [name, fill(value)] as const),
        body: body === null ? null : fill(body),
      }
    },
    onAccepted({ target, body }) {
      own.forget(target.toLowerCase())
      // A verified party cannot be verified again.
      if (target.startsWith('/v1/compliance/kyc')) own.forget((body ?? '').toLowerCase())
    },
  }
}
