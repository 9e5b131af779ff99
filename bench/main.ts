// `npm run bench`: measures the floors and the product alternately in one run and prints how they compare.
import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { problemOfDatabaseUrl } from '#core/postgres/address.ts'
import { measureInTurns, problemOfRelease, turnsText } from './against.ts'
import {
  BASELINE_FILE,
  baselineSchema,
  compareWithBaseline,
  GUARD_ROUNDS,
  MIN_ROUNDS,
  guardText,
  measureGuarded,
  verdictOf,
  type Baseline,
  type GuardedRow,
} from './guard.ts'
import { MEASURES } from './measures/all.ts'
import { createReference } from './reference.ts'
import { startSystem, type Options } from './system.ts'
import { asMarkdown, asText, type Row } from './table.ts'

const HELP = `npm run bench: measures performance and compares it with floors of the same run.

  npm run bench -- --only customers,captures --seconds 5

--guard          compares the processor time of the most used work with bench/baseline.json, which the previous release
                 wrote: better, same, or worse beyond noise. A row that is worse makes the exit code 1. Takes 5 minutes
--write-baseline writes the figures of --guard into bench/baseline.json. Run it in a clone of the release
--against DIR    compares the processor time of the same work with the release in this folder, installed and with this
                 option itself: both run at once and work in turns. A row that is worse makes the exit code 1. Only
                 --only, --rounds and --seconds apply
--only a,b       only these measures:
${MEASURES.map(({ name, about }) => `                   ${name.padEnd(10)} ${about}`).join('\n')}
--seconds N      length of each run. Default: 5
--rounds N       runs of each side, alternately; the median counts. Default: 3; with --against 12, and at least 4
--rows N         customers of the listed tenant. Default: 1000000
--finished N     finished jobs of the full database; writing 10000000 takes a while. Default: 1000000
--backlog N      jobs of the backlog. Default: 100000
--postgres URL   a PostgreSQL server of your own, 18 or newer, instead of an embedded one; its user may create databases and
                 roles. The databases are dropped afterwards, the roles sluice_* remain
--traces SHARE   the product's processes trace this share of requests, e.g. 0.01, and send the spans to a sink.
                 Default: no traces
--json FILE      writes the rows as JSON
--markdown       prints the table as Markdown
--write-reference
                 writes the mean time of each atomic step in the database into src/core/metrics/reference.json. Each release
                 serves it as sluice_statement_reference_seconds. Use one machine for all releases, with all measures
--profile DIR    writes CPU profiles of the product's processes, for Chrome's developer tools, and the slowest PostgreSQL
                 statements; with \`life\`, \`payouts\` and \`messages\` also those of each (the run is slower)

It needs redis-server or valkey-server on the PATH. Everything else that is not yours is started on free ports, with data in a temporary folder.
A floor's provider is the product's own adapter and the same emulator, unless its row says otherwise.
In \`life\` a payment counts when its last notification is applied. The floor trusts notifications and applies them at once.
Peer figures are from another day and only for comparison.
The load generator shares the machine and is the same for both sides.`

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    guard: { type: 'boolean', default: false },
    'write-baseline': { type: 'boolean', default: false },
    against: { type: 'string' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string' },
    rows: { type: 'string', default: '1000000' },
    finished: { type: 'string', default: '1000000' },
    backlog: { type: 'string', default: '100000' },
    postgres: { type: 'string' },
    traces: { type: 'string' },
    json: { type: 'string' },
    markdown: { type: 'boolean', default: false },
    'write-reference': { type: 'boolean', default: false },
    profile: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
})

/** The default of --rounds with --against. */
const TURNS = 12
/** Options that --guard and --against do not have. */
const GIVES_OTHER_FIGURES = ['json', 'profile', 'postgres', 'traces'] as const
/** The minimum number of rounds for the reference that a release serves. */
const MIN_REFERENCE_ROUNDS = 3

async function main(): Promise<void> {
  if (values.help === true) return void process.stdout.write(`${HELP}\n`)
  const names =
    values.only?.split(',') ??
    MEASURES.filter((measure) => measure.on_demand !== true).map(({ name }) => name)
  const unknown = names.find((name) => MEASURES.every((measure) => measure.name !== name))
  if (unknown !== undefined) throw new Error(`--only: there is no measure "${unknown}". See --help.`)
  if (values.against !== undefined) return await against(values.against, names)
  const is_guard = values.guard || values['write-baseline']
  if (is_guard) refuseWithGuard()
  if (values['write-baseline'] && hasChanges())
    throw new Error('--write-baseline: measure a commit, without changes in src and migrations.')
  const reference = values['write-reference'] ? createReference() : null
  if (reference !== null && (count('rounds') < MIN_REFERENCE_ROUNDS || hasChanges()))
    throw new Error(
      `--write-reference: measure a commit, without changes in src and migrations, with --rounds ${MIN_REFERENCE_ROUNDS} or more.`,
    )
  const system = await startSystem({
    ...(is_guard ? GUARD_ROUNDS : { seconds: count('seconds'), rounds: count('rounds') }),
    rows: count('rows'),
    finished: count('finished'),
    backlog: count('backlog'),
    postgres: postgresUrl(),
    traces: values.traces ?? null,
    profile: values.profile ?? null,
    reference,
    log,
  })
  const environment = about(system.options)
  const selected = MEASURES.filter(({ name }) => names.includes(name))
  const rows: Row[] = []
  try {
    if (is_guard) return await guard(await measureGuarded(system, selected), environment)
    for (const measure of selected) {
      log(measure.name)
      rows.push(...(await measure.run(system)))
    }
  } finally {
    await system.stop()
  }
  process.stdout.write(`\n${values.markdown ? asMarkdown(rows) : asText(rows)}\n${environment}\n`)
  if (reference !== null) log(`${await reference.write(environment)} steps written into the reference`)
  if (values.json !== undefined)
    await writeFile(values.json, `${JSON.stringify({ about: environment, rows }, null, 2)}\n`)
}

/** Throws if options were given that `--guard` and `--write-baseline` do not have: all rounds must be equal. */
function refuseWithGuard(): void {
  const given = (['only', ...GIVES_OTHER_FIGURES] as const).find((name) => values[name] !== undefined)
  if (given !== undefined)
    throw new Error(`--guard and --write-baseline always measure the same: leave out --${given}.`)
}

/** Compares the guarded work of these measures with the release in this folder. */
async function against(other: string, names: string[]): Promise<void> {
  const given =
    GIVES_OTHER_FIGURES.find((name) => values[name] !== undefined) ?? (values.guard ? 'guard' : undefined)
  if (given !== undefined) throw new Error(`--against: leave out --${given}, which applies to one release.`)
  const problem = problemOfRelease(other)
  if (problem !== undefined) throw new Error(`--against: ${problem}`)
  const measures = MEASURES.filter(({ name, guarded }) => guarded !== undefined && names.includes(name))
  if (measures.length === 0) {
    const guarded_names = MEASURES.filter(({ guarded }) => guarded !== undefined).map(({ name }) => name)
    throw new Error(`--against: --only must name some of ${guarded_names.join(', ')}.`)
  }
  const [rounds, seconds] = [count('rounds', TURNS), count('seconds')]
  if (rounds < MIN_ROUNDS) throw new Error(`--against: --rounds must be ${MIN_ROUNDS} or more.`)
  const rows: GuardedRow[] = []
  for (const { name } of measures) {
    log(name)
    rows.push(...(await measureInTurns(name, { other, rounds, seconds })))
  }
  process.stdout.write(`\n${turnsText(rows, git(['-C', other, 'rev-parse', '--short', 'HEAD']))}`)
  process.stdout.write(`${about({ rounds, seconds })}\n`)
  if (rows.some((row) => verdictOf(row).result === 'worse')) process.exitCode = 1
}

/** Compares the rows with the baseline, or writes the baseline. */
async function guard(rows: GuardedRow[], environment: string): Promise<void> {
  if (values['write-baseline']) {
    const baseline: Baseline = { commit: git(['rev-parse', 'HEAD']), about: environment, rows }
    return await writeFile(BASELINE_FILE, `${JSON.stringify(baseline, null, 2)}\n`)
  }
  const baseline = baselineSchema.parse(JSON.parse(await readFile(BASELINE_FILE, 'utf8')))
  const verdicts = compareWithBaseline(rows, baseline.rows)
  process.stdout.write(`\n${guardText(verdicts, baseline)}\nnow: ${environment}\nbefore: ${baseline.about}\n`)
  if (verdicts.some(({ result }) => result === 'worse')) process.exitCode = 1
}

/** Time, versions and machine of the run. */
function about({ rounds, seconds }: Pick<Options, 'rounds' | 'seconds'>): string {
  const commit = git(['rev-parse', '--short', 'HEAD'])
  const changed = hasChanges() ? ' with changes' : ''
  const [load = 0] = loadavg()
  return `${new Date().toISOString()}, commit ${commit}${changed}, Node ${process.version}, ${cpus().length} cores (${cpus()[0]?.model.trim()}), load before ${load.toFixed(1)}, rounds: ${rounds}, each of ${seconds} s${values.postgres === undefined ? '' : ', PostgreSQL of your own'}`
}

function hasChanges(): boolean {
  return git(['status', '--porcelain', 'src', 'migrations']) !== ''
}

function git(args: string[]): string {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return 'unknown'
  }
}

function count(name: 'seconds' | 'rounds' | 'rows' | 'finished' | 'backlog', missing = 3): number {
  const value = Number(values[name] ?? missing)
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} must be a whole number above 0`)
  return value
}

function postgresUrl(): string | null {
  const { postgres = null } = values
  const problem = postgres === null ? undefined : problemOfDatabaseUrl(postgres)
  if (problem !== undefined) throw new Error(`--postgres ${problem}`)
  return postgres
}

function log(line: string): void {
  process.stderr.write(`${line}\n`)
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
await main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
  process.exitCode = 1
})
