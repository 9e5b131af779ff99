// Tests the guides: the API serves each guide, the search finds each guide, and the commands in the guides work
// unchanged.
import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect } from 'vitest'
import { QUEUES } from '#core/config/queues.ts'
import { ERRORS } from '#core/errors.ts'
import { registry } from '#core/metrics.ts'
import { MESSAGE_FAILURES } from '#core/outcome.ts'
import { SCOPES } from '#domain/areas.ts'
import { proposalState } from '#domain/proposals/proposal.ts'
import { DRIFT_STATES } from '#domain/reconciliation/drift.ts'
import { MESSAGE_STATUSES } from '#domain/messages/message.ts'
import { RESOURCES, type ResourceName } from '#domain/resources.ts'
import { suppressionReason } from '#domain/suppressions/suppression.ts'
import { transactionKind } from '#domain/wallet/transactions.ts'
import { FAULT_NAMES } from '#emulators/shared/faults.ts'
import { PHASES } from '#emulators/smtp/emulator.ts'
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from '#test/client.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { testIn, type World } from '#test/world.ts'

const FOLDER = new URL('../docs/guides/', import.meta.url)
const GUIDES = (await readdir(FOLDER))
  .map((file) => file.replace('.md', ''))
  .filter((name) => name !== 'README')
  .concat('sdk', 'configuration')
const SEPARATOR = '\u001E'

const guide = (name: string) => readFile(new URL(`${name}.md`, FOLDER), 'utf8')
/** The names of the guides in the order of the index. */
const ORDERED_NAMES = Array.from(
  (await guide('README')).matchAll(/\]\(([a-z0-9-]+)\.md\)/g),
  ([, name]) => name!,
)

/** The commands of a guide, each with the JSON of the response that the guide shows. */
function commandsOf(markdown: string): { command: string; answer: unknown }[] {
  return Array.from(
    markdown.matchAll(/^```sh\n([^]*?)^```\n(?:\n```json\n([^]*?)^```)?/gm),
    ([, command, answer]) => ({ command: command!, answer: answer && JSON.parse(answer) }),
  )
}

/** The commands of each guide that has commands. Blocks of `sh not-run` are not run. */
const GUIDE_COMMANDS = new Map<string, ReturnType<typeof commandsOf>>()
for (const name of ORDERED_NAMES) {
  const commands = commandsOf(await guide(name))
  if (commands.length > 0) GUIDE_COMMANDS.set(name, commands)
}

let reader: Client
/** The folder in which the commands run, with the programs that the guides ask a reader to save. */
let folder: Awaited<ReturnType<typeof createTemporaryFolder>>
// Webhooks may be sent to the same networks as under `npm start`.
const test = testIn({ env: { WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8,::1/128' } })
test.beforeAll(async ({ world }) => {
  reader = createClient(world.client.url, '')
  folder = await createTemporaryFolder()
  for (const [, code, name] of (await guide('receiving-events')).matchAll(
    /^```js\n(\/\/ (\S+)\n[^]*?)^```/gm,
  ))
    await writeFile(join(folder.path, name!), code!)
})
afterAll(async () => {
  await folder?.remove()
})

/** The shell function that the quickstart defines and all guides use. */
const POLL = GUIDE_COMMANDS.get('quickstart')!.find(({ command }) => command.startsWith('poll()'))!.command

/** Runs the commands of a guide as the first tenant of the world. */
async function follow(world: World, name: string, { options = '-eu', before = '' } = {}) {
  const script = GUIDE_COMMANDS.get(name)!.map(({ command }) => `${command}\nprintf '${SEPARATOR}'`)
  const { key } = world.client
  const { key: test_key } = await world.clientOf({ tenant: 'acme', mode: 'test' })
  const port = await freePort('127.0.0.1')
  // Processes that a guide starts end with the script of the guide.
  const begin = `trap 'jobs -p | xargs -r kill 2> /dev/null || true' EXIT\n${POLL}`
  return await promisify(execFile)('bash', [options, '-c', [begin, before, ...script].join('\n')], {
    cwd: folder.path,
    env: {
      PATH: process.env.PATH,
      api: world.client.url,
      emulator: world.provider('stripe').url,
      inbox: world.provider('smtp').url,
      twilio: world.provider('twilio').url,
      hook: `http://localhost:${port}/webhooks`,
      PORT: String(port),
      key,
      test_key,
      auth: `Authorization: Bearer ${key}`,
    },
    timeout: 25_000,
  })
}

describe('the commands of a guide return the responses that the guide shows, even after the commands of all other guides', () => {
  test.for([...GUIDE_COMMANDS])('%s', async ([name, commands], { world }) => {
    const { stdout } = await follow(world, name)
    const outputs = stdout.split(SEPARATOR)
    for (const [index, { command, answer }] of commands.entries()) {
      const output = outputs[index]!.trim()
      const last = output.split('\n').at(-1)!
      expect([command, answer === undefined && output.includes('{"error":{')]).toEqual([command, false])
      const response = answer === undefined ? null : (JSON.parse(last) as unknown)
      expect([command, response]).toEqual([command, matching(answer ?? null)])
    }
  })
})

test('the guide to events waits for the next event after all earlier events, even if there are many events', async ({
  world,
}) => {
  const requests = Array.from({ length: 101 }, (_, nth) =>
    world.client.post('/v1/customers', { idempotency_key: `guide-many-events-${nth}` }),
  )
  await Promise.all(requests)
  const last = await world.client.get('/v1/events?after=100', { prefer: 'wait=20' })
  expect(last.body).not.toEqual([])
  const { stdout } = await follow(world, 'events')
  const new_events = JSON.parse(stdout.split(SEPARATOR).at(-2)!) as { sequence: number }[]
  expect(new_events.filter(({ sequence }) => sequence <= 101)).toEqual([])
})

test('the commands of a guide also end when they are run a second time, with an error if they wait in vain', async ({
  world,
}) => {
  const guides = ['wallet', 'payouts', 'kyc', 'disputes']
  // Two polls are enough, because all events have arrived.
  const before = 'sleep() { :; }; seq() { echo 1 2; }'
  const followed = guides.map((name) => follow(world, name, { options: '-u', before }))
  const stuck = (await Promise.all(followed)).map(({ stderr }) => stderr.includes('has not come'))
  expect(stuck).toEqual([false, false, true, true])
})

describe("each guide is a page that begins with the guide's purpose, and the links of the page work", () => {
  const targets = new Map<string, ReturnType<typeof reader.get>>()
  /** Each page is requested once: the guides have more links than one address may follow at once. */
  const openLink = (path: string) => targets.getOrInsertComputed(path, () => reader.get(path))

  test.each(GUIDES)('%s', async (name) => {
    const page = await reader.get(`/docs/guides/${name}`)
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'/)
    expect(page.text).not.toMatch(/<script|\son\w+=|style="/)
    expect(page.text).toMatch(/<article><h1>[^<]+<\/h1>\s*<p>/)
    const links = new Set(
      Array.from(page.text.matchAll(/(?:href|src|action)="([^"]+)"/g), ([, link]) => link!),
    )
    for (const link of links) {
      const [path, anchor] = link.split('#') as [string, string | undefined]
      const target = path === '' ? page : await openLink(path)
      const has_anchor = anchor === undefined || target.text.includes(`id="${anchor}"`)
      expect([link, target.status, has_anchor]).toEqual([link, 200, true])
    }
  })
})

test('the index lists every guide, and the path of an unknown guide is 404', async () => {
  const index = await reader.get('/docs/guides')
  const reference = await reader.get('/openapi.json')
  for (const name of GUIDES) {
    expect(index.text).toContain(`<li><a href="/docs/guides/${name}"`)
    // The search of the API reference finds headings.
    expect(reference.body.info.description).toMatch(
      new RegExp(`^### .+\n\n\\[.+\\]\\(/docs/guides/${name}\\): `, 'm'),
    )
  }
  expect(GUIDES.length).toBeGreaterThan(14)
  expect((await reader.get('/docs/guides/nothing')).status).toBe(404)
  expect(reference.body.externalDocs.url).toBe(`${reader.url}/docs/guides`)
})

test('the search finds sections by words, and escapes the query', async () => {
  for (const [query, found] of [
    ['client_secret buyer', '/docs/guides/three-d-secure'],
    ['wait prefer respond-async', '/docs/guides/waiting#say-how-long'],
    ['insufficient_funds', '/docs/guides/test-methods#declined'],
    ['RATE_LIMIT_RPS', '/docs/guides/rate-limits#the-limit'],
    ['whsec rotate', '/docs/guides/stripe-webhooks#rotate-the-secret'],
    ['beneficiaries', '/docs/guides/recipients-and-merchants'],
    ['beneficiary', '/docs/guides/recipients-and-merchants'],
    ['fees', '/docs/guides/wallet'],
    ['platform fee', '/docs/guides/wallet#fees'],
    ['gpt', '/docs/guides/ai-tasks'],
    ['ollama', '/docs/guides/ai-tasks#a-provider-of-yours'],
    ['unsubscribe', '/docs/guides/messages'],
    ['dkim', '/docs/guides/messages#smtp-and-dkim'],
    ['drift', '/docs/guides/operations#drifts'],
    ['retries', '/docs/guides/idempotency'],
    ['verify signature', '/docs/guides/receiving-events#verify'],
    ['hmac', '/docs/guides/receiving-events'],
    ['listen forward', '/docs/guides/receiving-events#on-your-own-machine'],
    ['stripe listen', '/docs/guides/receiving-events#on-your-own-machine'],
    ['ngrok', '/docs/guides/receiving-events#on-your-own-machine'],
    ['tunnel', '/docs/guides/receiving-events#on-your-own-machine'],
    ['ordering', '/docs/guides/receiving-events#answer-fast-work-later'],
    ['exactly once', '/docs/guides/receiving-events#answer-fast-work-later'],
    ['retry webhook', '/docs/guides/receiving-events#what-is-sent-again-and-when'],
    ['rate_per_s', '/docs/guides/receiving-events#limits-order-and-headers-of-an-endpoint'],
    ['max_in_flight', '/docs/guides/receiving-events#limits-order-and-headers-of-an-endpoint'],
    ['throttle', '/docs/guides/receiving-events#limits-order-and-headers-of-an-endpoint'],
    ['custom headers', '/docs/guides/receiving-events#limits-order-and-headers-of-an-endpoint'],
    ['ip allowlist', '/docs/guides/receiving-events#limits-order-and-headers-of-an-endpoint'],
    ['firewall', '/docs/guides/operations#events-out'],
    ['subscription', '/docs/guides/receiving-events'],
    ['outgoing webhooks', '/docs/guides/receiving-events'],
    ['re-enable endpoint', '/docs/guides/receiving-events'],
    ['event catalog', '/docs/guides/receiving-events'],
    ['event catalog', '/docs/guides/events'],
    ['backfill', '/docs/guides/events'],
    ['static ip', '/docs/guides/receiving-events'],
    ['payload size', '/docs/guides/receiving-events'],
    ['statuses', '/docs/guides/payments'],
    ['graceful shutdown', '/docs/guides/operations'],
    ['graceful shutdown', '/docs/guides/deploy'],
    ['zero downtime', '/docs/guides/upgrades'],
    ['high availability', '/docs/guides/databases'],
    ['on-call', '/docs/guides/monitoring'],
    ['how many workers', '/docs/guides/sizing'],
    ['out of memory', '/docs/guides/sizing'],
    ['disaster recovery', '/docs/guides/go-live'],
    ['blue green', '/docs/guides/upgrades'],
    ['canary', '/docs/guides/upgrades'],
    ['health check', '/docs/guides/operations#readiness'],
    ['haproxy', '/docs/guides/operations#behind-a-proxy'],
    ['read replica', '/docs/guides/databases'],
    ['userlist', '/docs/guides/databases#pgbouncer'],
    ['proposal', '/docs/guides/operations#what-needs-two-operators'],
    ['proposals', '/docs/guides/dashboard'],
    ['force failure', '/docs/guides/operations#force-failure'],
    ['second operator', '/docs/guides/operations#a-second-operator-on-your-own-machine'],
    ['four eyes', '/docs/guides/operations'],
    ['correct balance', '/docs/guides/operations'],
    ['EMAIL_HEADERS_ALLOWED', '/docs/guides/messages#headers-that-are-refused'],
    ['x-smtpapi', '/docs/guides/messages#headers-that-are-refused'],
    ['RATE_LIMIT_TENANT_RPS', '/docs/guides/rate-limits#the-limit'],
    ['overloaded', '/docs/guides/rate-limits'],
    ['too many connections', '/docs/guides/errors#overloaded'],
    ['lost log lines', '/docs/guides/operations#logs'],
    ['sluice_log_lines_lost_total', '/docs/guides/operations#alerts'],
    ['disk full', '/docs/guides/operations#alerts'],
    ['retrying', '/docs/guides/operations#outages-of-providers'],
    ['fail_requested_at', '/docs/guides/payouts#states'],
    ['smtp fault', '/docs/guides/emulator-faults#email-sms-and-ai'],
    ['money filter', '/docs/guides/messages#templates'],
    ['format date', '/docs/guides/messages#templates'],
    ['email domains', '/docs/guides/dashboard#domains-of-email'],
    ['bulk resolve', '/docs/guides/operations#when-work-is-stuck'],
    ['opt-out', '/docs/guides/messages#sms-from-people'],
    ['opt-out', '/docs/guides/messages#suppressions'],
    ['verify domain', '/docs/guides/dashboard#domains-of-email'],
    ['verify domain', '/docs/guides/messages#smtp-and-dkim'],
  ]) {
    const page = await reader.get(`/docs/guides/search?q=${encodeURIComponent(query!)}`)
    const [, results = ''] = page.text.split('<ol class="results">')
    expect([query, results.includes(`<li><a href="${found}"`)]).toEqual([query, true])
  }
  const none = await reader.get('/docs/guides/search?q=no-such-word')
  expect(none.text).toMatch(/<p role="status">0 sections with “no-such-word”\.[^]*<a href="\/docs\/guides">/)
  const escaped = await reader.get(
    `/docs/guides/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`,
  )
  expect([escaped.status, escaped.text.includes('<script')]).toEqual([200, false])
  for (const query of ['', '?q=', '?q=a&q=b', '?q=%F0', '?q=(((']) {
    expect((await reader.get(`/docs/guides/search${query}`)).status).toBe(200)
  }
})

test('the search uses the first eight different words of the query', async () => {
  const found = async (query: string) => {
    const page = await reader.get(`/docs/guides/search?q=${encodeURIComponent(query)}`)
    return page.text.includes('<mark>')
  }
  expect(await found('whsec no-such-word')).toBe(false)
  expect(await found(`${'whsec '.repeat(9)} no-such-word`)).toBe(false)
  expect(await found('a e i o u t n s no-such-word')).toBe(true)
})

test('common search words lead to the right guide, in the search of the guides and of the API reference', async () => {
  const { description } = (await reader.get('/openapi.json')).body.info
  // The search of the API reference finds the headings of its description.
  const sections = Array.from((description as string).matchAll(/^#+ (.+)$([^]*?)(?=^#|$(?![^]))/gm))
  for (const [query, ...names] of [
    ['3ds', 'three-d-secure'],
    ['sca', 'three-d-secure'],
    ['void', 'payments'],
    ['chargeback', 'disputes'],
    ['dispute', 'disputes'],
    ['discard', 'operations'],
    ['double charge', 'idempotency'],
    ['backup', 'operations'],
    ['retry', 'idempotency', 'waiting'],
    ['timeout', 'waiting', 'idempotency'],
    ['TTL', 'operations', 'idempotency'],
    ['provider events', 'stripe-webhooks'],
    ['reset', 'quickstart'],
    ['docker', 'deploy'],
    ['JPY', 'payments'],
    ['zero decimal', 'payments'],
    ['sdk', 'sdk'],
    ['client library', 'sdk'],
    ['csv', 'dashboard'],
    ['export', 'dashboard'],
    ['keyboard shortcuts', 'dashboard'],
    ['team', 'dashboard'],
    ['sso', 'dashboard'],
    ['cors', 'keys'],
    ['payout', 'payouts'],
    ['top-up', 'wallet'],
    ['webhook', 'receiving-events'],
    ['replay', 'receiving-events'],
  ] as const) {
    const page = await reader.get(`/docs/guides/search?q=${encodeURIComponent(query)}`)
    const results = Array.from(
      page.text.split('<ol class="results">')[1]!.matchAll(/<li><a href="\/docs\/guides\/([^"#]+)"/g),
      ([, name]) => name,
    )
    for (const name of names)
      expect([query, results.slice(0, 5)]).toEqual([query, expect.arrayContaining([name])])
    const matching_sections = sections.filter(([, heading]) =>
      heading!.toLowerCase().includes(query.toLowerCase()),
    )
    expect([
      query,
      matching_sections.some(([, , text]) => text!.includes(`/docs/guides/${names[0]}`)),
    ]).toEqual([query, true])
  }
})

test('the doc_url of an error leads to the paragraph of its code, and every code has a paragraph', async () => {
  const page = await reader.get('/docs/guides/errors')
  for (const [code, [status]] of Object.entries(ERRORS))
    expect(page.text).toMatch(new RegExp(`id="${code}"[^]{1,120}<p><strong>${status}\\.</strong> `))
  const { doc_url } = (await reader.get('/v1/customers')).body.error
  // API_URL was not set when this API started, so the link has the address at which the API listens.
  expect(doc_url).toBe(`${reader.url}/docs/guides/errors#unauthorized`)
})

test('the guides name every test payment method, fault, scope, queue, event type, kind of transaction and request that can wait', async () => {
  const emulated = await readFile(
    new URL('../src/providers/sandbox/stripe/methods.ts', import.meta.url),
    'utf8',
  )
  const methods = await guide('test-methods')
  for (const [token] of emulated.matchAll(/pm_card_\w+/g)) expect(methods).toContain(`\`${token}\``)
  const faults = await guide('emulator-faults')
  for (const name of FAULT_NAMES) expect(faults).toContain(`| \`${name}\` |`)
  for (const phase of PHASES) expect(faults).toContain(`\`${phase}\``)
  const keys = await guide('keys')
  for (const scope of SCOPES)
    expect(keys).toMatch(new RegExp(`\`${scope}\`|\`${scope.replace(/:.*/, ':\\*')}\``))
  const expectNames = async (name: string, terms: readonly string[]) => {
    const rows = Array.from((await guide(name)).matchAll(/^\| (.+?) \|/gm), ([, cell]) => cell!).join()
    for (const each of terms) expect([name, rows]).toEqual([name, expect.stringContaining(`\`${each}\``)])
  }
  const eventsOf = (resource: ResourceName) =>
    Object.keys(RESOURCES[resource].events).map((word) => `${resource}.${word}`)
  await expectNames('payouts', eventsOf('payout'))
  await expectNames('wallet', [...eventsOf('top_up'), ...transactionKind.options])
  await expectNames('kyc', eventsOf('kyc'))
  await expectNames('ai-tasks', eventsOf('ai_task'))
  await expectNames('messages', [
    ...eventsOf('message'),
    ...eventsOf('template'),
    ...eventsOf('suppression'),
    ...MESSAGE_STATUSES,
    ...MESSAGE_FAILURES,
    ...suppressionReason.options,
  ])
  await expectNames('operations', [...QUEUES, ...DRIFT_STATES, ...proposalState.options])
  const alerts = (await guide('operations')).split('\n## ').find((part) => part.startsWith('Alerts'))!
  // Some metrics have no value at first, so the test compares the definitions of the metrics.
  const measured = registry.getMetricsAsArray().map(({ name }) => name)
  for (const [, name] of alerts.matchAll(/`(sluice_\w+)/g)) expect(measured).toContain(name)
  expect(alerts).toContain('`sluice_log_lines_lost_total`')
  const { paths } = (await reader.get('/openapi.json')).body
  const waiting = Object.keys(paths).filter((path) => paths[path].post?.responses[202] !== undefined)
  await expectNames(
    'waiting',
    waiting.map((path) => `POST ${path}`),
  )
})

function matching(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(matching)
  if (typeof answer !== 'object' || answer === null) return answer
  return expect.objectContaining(
    Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, matching(value)])),
  )
}
