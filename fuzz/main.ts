// `npm run fuzz`: sends invalid and unexpected requests to every operation and checks the answers.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startPostgres } from '#start/postgres.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { createDeployment } from '#test/deployment.ts'
import { newTally, propertiesOf, runRound, type Finding, type Tally } from './campaign.ts'
import { deployedTarget, FUZZED_VARIABLES, runningTarget, type Target } from './target.ts'

const HELP = `npm run fuzz: invalid and unexpected requests to every operation of the OpenAPI document.

  npm run fuzz -- --minutes 5
  npm run fuzz -- --seed 17 --route 'POST /v1/payments' --path 12:0:1

No request may cause an undocumented answer or an internal error, or change anything if it is refused. Every answer matches the
document and shows no records of another tenant. In the end the books balance. Floods of one key fill each queue: excess requests are
refused with the name of the queue, another tenant is answered, memory is bounded, and disconnected callers leave nothing behind.

--minutes N           duration. Default: 1
--seed N              seed of the first round; each round adds one. The same seed creates the same requests. Default: random
--runs N              requests per operation and round. Default: 40
--route NAME          only properties with NAME in their name: an operation, "POST /stripe", "requests without an end",
                      "scenarios of payouts", "a flood of previews"
--path P              runs one case of a round, as printed with a finding
--queue Q             the system's queue: redis or postgres. Default: redis
--list                prints the names of all properties

It starts its own system in processes on free ports, with data in a temporary folder. For a running system:

--url URL             its API
--key KEY             a key with all scopes, of a tenant without other users
--other-key KEY       a key of another tenant, whose records must stay hidden
--webhooks-url URL    its webhooks host, with the secrets that sign notifications:
--webhook-secret S    of Stripe
--email-secret S      of email
--twilio-token S      of Twilio
Stored data is then judged only by the newest 100 records of each kind, and nothing happens at the processor.

Exit code: 0, or 1 after a finding: the seed, the path and the shrunk request as a command are printed.`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string' },
    runs: { type: 'string', default: '40' },
    route: { type: 'string', default: '' },
    path: { type: 'string' },
    queue: { type: 'string', default: 'redis' },
    list: { type: 'boolean', default: false },
    url: { type: 'string' },
    key: { type: 'string' },
    'other-key': { type: 'string' },
    'webhooks-url': { type: 'string' },
    'webhook-secret': { type: 'string' },
    'email-secret': { type: 'string' },
    'twilio-token': { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(`${HELP}\n`)
  const minutes = number('minutes', values.minutes)
  const runs = number('runs', values.runs)
  const first_seed =
    values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : number('seed', values.seed)
  const { target, close } = await open()
  try {
    const names = propertiesOf(target)
    if (values.list) return void process.stdout.write(`${names.join('\n')}\n`)
    if (!names.some((name) => name.toLowerCase().includes(values.route.toLowerCase())))
      throw new Error(`--route: no property has "${values.route}" in its name. See --list.`)
    const tally = newTally()
    const finding = await runRounds(target, tally, { first_seed, runs, minutes })
    process.stdout.write(`${summary(tally)}\n`)
    if (finding === null) return void process.stdout.write(`No findings. The first seed was ${first_seed}.\n`)
    process.stdout.write(report(finding))
    process.exitCode = 1
  } finally {
    await close()
  }
}

async function open(): Promise<{ target: Target; close: () => Promise<void> }> {
  if (values.url !== undefined) {
    if (values.key === undefined) throw new Error('--url needs --key')
    const target = await runningTarget({
      url: values.url,
      key: values.key,
      other_key: values['other-key'],
      webhooks_url: values['webhooks-url'],
      secrets: {
        stripe: values['webhook-secret'],
        email: values['email-secret'],
        twilio: values['twilio-token'],
      },
    })
    return { target, close: () => Promise.resolve() }
  }
  const { queue } = values
  if (queue !== 'redis' && queue !== 'postgres') throw new Error('--queue must be redis or postgres')
  log('Starting a system')
  const closers: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (const each of closers.toReversed()) await each()
  }
  try {
    const folder = await createTemporaryFolder()
    closers.push(() => folder.remove())
    const postgres = await startPostgres({ data_dir: join(folder.path, 'postgres') })
    closers.push(() => postgres.stop())
    const deployment = await createDeployment({
      queue,
      server_url: postgres.url,
      webhooks: true,
      env: FUZZED_VARIABLES,
    })
    closers.push(() => deployment.close())
    const worker = await deployment.startWorker()
    const api = await deployment.startApi()
    return { target: await deployedTarget(deployment, { api, others: [worker] }), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function runRounds(
  target: Target,
  tally: Tally,
  { first_seed, runs, minutes }: { first_seed: number; runs: number; minutes: number },
): Promise<Finding | null> {
  const started = performance.now()
  const until_ms = started + minutes * 60_000
  const is_tty = process.stderr.isTTY
  const printProgress = () => {
    const elapsed_s = Math.round((performance.now() - started) / 1000)
    const line = `${elapsed_s} s  ${summary(tally)}  ${tally.property}`
    process.stderr.write(
      is_tty ? `\r\u001b[K${line.slice(0, (process.stderr.columns || 80) - 1)}` : `${line}\n`,
    )
  }
  const timer = setInterval(printProgress, is_tty ? 200 : 10_000)
  try {
    const { route: only, path } = values
    for (let round = 0; ; round++) {
      const seed = first_seed + round
      const finding = await runRound(target, tally, { seed, runs, only, path, until_ms })
      if (finding !== null || path !== undefined || performance.now() > until_ms) return finding
    }
  } finally {
    clearInterval(timer)
    if (is_tty) process.stderr.write('\r\u001b[K')
  }
}

function summary({ requests, statuses }: Tally): string {
  const counts = [...statuses].toSorted(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
  return `${requests} requests  ${counts.join('  ')}`
}

function report({ property, seed, path, problems, command }: Finding): string {
  const route = property === '' ? '' : ` --route '${property}'`
  const replay = `npm run fuzz -- --seed ${seed}${route}${path === '' ? '' : ` --path ${path}`}`
  const lines = [`Finding with seed ${seed}: ${property}`, ...problems.map((each) => `  ${each}`)]
  return `${[...lines, '', `Repeat: ${replay}`, ...(command === '' ? [] : ['', command])].join('\n')}\n`
}

function number(name: string, text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value < 0 || text.trim() === '')
    throw new Error(`--${name} must be a number`)
  return value
}

function log(line: string): void {
  process.stderr.write(`${line}\n`)
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
await main().catch((error: unknown) => {
  // Errors about options are printed without a stack.
  const { message, stack } = error as Error
  process.stderr.write(`${message.startsWith('--') ? message : stack}\n`)
  process.exit(1)
})
