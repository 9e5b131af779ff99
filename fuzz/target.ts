// What is fuzzed: a system with two tenants, the things that they have, and a look at what it stores.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { LOOKUP_KIND } from '#domain/reconciliation/lookups.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { readDocument } from '#test/documentation.ts'
import { createKey } from '#test/environment.ts'
import type { Provider } from '#test/providers.ts'
import type { Process } from '#test/process.ts'
import type { Deployment } from '#test/deployment.ts'
import { stored } from '#test/refusals.ts'
import type { Notifier } from './notifications/notice.ts'
import { PLACEHOLDER } from './requests.ts'
import { createFixtures, inAnHour } from './fixtures.ts'
import { INJECTED } from './values.ts'
import type { Sent } from './wire.ts'

/** Stands in everything that the other tenant has: no answer may hold it. */
const OTHER_TENANT_MARK = 'belongs-to-another-tenant'
/** Between two looks at a system whose jobs cannot be seen. */
const QUIET_MS = 150

/** Variables of a system that is fuzzed: what has no end is ended soon, no limit of messages is met, and email is told of. */
export const FUZZED_VARIABLES = {
  REQUEST_TIMEOUT_MS: '2000',
  // What is sent to endpoints fails at once, and once.
  WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8',
  WEBHOOK_RETRY_SCHEDULE_S: '0',
  MESSAGES_PER_MINUTE: '1000000',
  MESSAGES_PER_DESTINATION_HOUR: '1000000',
  // As the scripts of package.json have it.
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
  /** Where to send notifications, and what those of each provider are signed with; null: they are not fuzzed. */
  webhooks: { url: string; secrets: Secrets } | null
  /** What stands only in records of the other tenant. */
  other_tenant_texts: string[]
  /** The processor, whose hand stories can force; null: it cannot be reached. */
  processor: Provider | null
  /** The provider of SMS, likewise. */
  sms: Provider | null
  /** Whether requests without an end are ended soon enough to wait for it. */
  short_timeout: boolean
  /** Puts in what the placeholders stand for, and makes it where there is none. */
  concrete(sent: Sent): Promise<Sent>
  /** Has to be told what was sent and taken: what it used up is made anew. */
  taken(sent: Sent): void
  /** What is stored, once nothing is under way. */
  stored(): Promise<string>
  /** The bytes that the API takes; 0 where that is not known. */
  memory(): Promise<number>
  /** How many notifications are stored that neither the processor nor a look of ours has made. */
  notifications(): Promise<number>
  /** What is wrong in the end: books that do not add up, processes that ended, logs that hold what they must not. */
  problems(): Promise<string[]>
}

type Running = { api: Process; others: Process[] }

/** A deployment of processes, with a new tenant; `running`: what it has started. */
export async function deployedTarget(deployment: Deployment, running: Running): Promise<Target> {
  const { sql, env, client } = deployment
  const neighbour = await createKey(sql, 'neighbour')
  const other = createClient(client.url, neighbour.secret)
  const processor = deployment.provider('stripe')
  const inbox = deployment.provider('smtp')
  // What becomes of an SMS is told by stories alone.
  const sms = deployment.provider('twilio')
  await sms.control('POST', '/callbacks', { automatic: false })

  // What is parked or in doubt looks again later, and changes nothing until then.
  async function hasWork(): Promise<boolean> {
    const [row] = await sql<{ open: boolean }[]>`
      select exists (
          select from jobs where finished_at is null
            and run_at < now() + case when tenant_id = ${SYSTEM_TENANT_ID} then interval '0' else interval '5 s' end
) or exists (select from notifications where state = 'waiting')
        or exists (select from unsequenced_events) or exists (select from webhook_due)
        or exists (select from webhook_recoveries where after_at is not null) as open`
    return row!.open
  }

  async function settled(): Promise<void> {
    for (;;) {
      // The processor first: what it has told is work here.
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
      const { url } = JSON.parse(await running.api.waitForLine('/metrics and /readyz listen')) as {
        url: string
      }
      const metrics = await (await fetch(`${url}/metrics`)).text()
      return Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1])
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

  // Whatever is asked, a log is one line of JSON for each thing said, and tells nobody's secrets.
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
      .map((line) => `a strange line in a log: ${line}`)
  }
}

/** Emails with a header that nobody may have put there. */
async function injectedHeaders(inbox: Provider): Promise<string[]> {
  const emails: { raw: string }[] = await inbox.control('GET', '/messages')
  return emails
    .map(({ raw }) => raw.split('\r\n\r\n', 1)[0]!)
    .filter((head) => new RegExp(`^${INJECTED}:`, 'im').test(head))
    .map((head) => `an email with a header that was smuggled into it: ${head}`)
}

/** A system that runs already; what it stores is what its lists show. The keys' tenants should be nobody else's. */
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
      // A refund that is under way shows nowhere: what looks the same twice is taken to be settled.
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
): Promise<Pick<Target, 'url' | 'document' | 'client' | 'neighbour' | 'concrete' | 'taken'>> {
  const document = await readDocument(client)
  const own = createFixtures(client)
  const others =
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
    if (first === 'other') return others ? await others.find(second!) : '0198f6f0-1234-7000-8000-123456789abd'
    return await own.find(first)
  }

  return {
    url: client.url,
    document,
    client,
    neighbour: other,
    async concrete(sent) {
      const { target, headers, body } = sent
      const all = [target, ...headers.map(([, value]) => value), body ?? '']
      const names = new Set(
        all.flatMap((text) => Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name!)),
      )
      const values = new Map<string, string>()
      // One after the other: a payment that two of them need is made once.
      for (const name of names) values.set(name, await valueOf(name))
      const fill = (text: string) => text.replaceAll(PLACEHOLDER, (_, name: string) => values.get(name)!)
      return {
        ...sent,
        target: fill(target),
        headers: headers.map(([name, value]) => [name, fill(value)] as const),
        body: body === null ? null : fill(body),
      }
    },
    taken({ target, body }) {
      own.forget(target.toLowerCase())
      // Who is being verified cannot be verified again.
      if (target.startsWith('/v1/compliance/kyc')) own.forget((body ?? '').toLowerCase())
    },
  }
}
