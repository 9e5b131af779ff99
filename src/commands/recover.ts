// `npm run recover`: what operators read and decide after a restore or failover of the database, and before a move.
import { parseArgs } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError, loadConfig, queueConfig, usesRedis, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { quantity } from '#core/describe.ts'
import { newId } from '#core/ids.ts'
import { findAuditHead } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import {
  countRunningJobs,
  findHeldJobs,
  findNewestChange,
  findSwitches,
  findSwitchState,
  isBeingWritten,
  type ListedSwitch,
} from '#domain/switches/find.ts'
import { findLostRequests } from '#domain/lost-requests/report.ts'
import { protectionsOff } from '#domain/switches/protections.ts'
import { declareSwitch, releaseSwitches, sealDatabase, type HeldMessages } from '#domain/switches/release.ts'
import { openQueue } from '#queue/queue.ts'
import { findCommand, requireOption, requireReason } from './arguments.ts'
import { withDatabase } from './database.ts'
import { print } from './print.ts'
import { runAsProgram } from './program.ts'

const HELP = `sluice recover: after a restore or failover of the database, and before it moves to another server.

  npm run recover                                              what was noticed, and what waits
  npm run recover -- release --messages send|discard --reason "checked with accounting"
  npm run recover -- switched --to 2026-11-28T09:30:00Z --reason "restored from the snapshot of 9:30"
  npm run recover -- seal
  npm run recover -- seal --undo

status    the default: the switches of the database, which jobs wait since them, and which protections are off.
release   ends the wait after a restore. Payouts and refunds still wait until the lists of the providers have been read.
          --messages decides about messages that were accepted before the switch and are not sent yet: they may have been
          sent by the database that was lost. A failover is released without this command.
switched  says that the database went back to the time --to, if no process could notice that; and that this server is in
          use from now on, although another one was. \`npm run recover\` prints its newest change.
seal      stops requests and jobs before a planned move to another server (a dump, a copy). The new server is then taken
          over without any wait. --undo ends a move that is given up.

--json prints JSON.
DATABASE_URL names the database, as the owner of the tables. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  messages: { type: 'string' },
  to: { type: 'string' },
  reason: { type: 'string' },
  undo: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type RecoverOptions = { messages?: string; to?: string; reason?: string; undo: boolean; json: boolean }
type Recover = { sql: Sql; config: Config; values: RecoverOptions }

const COMMANDS = { status, release, switched, seal }
const SWITCHES_SHOWN = 10
const LOST_REQUESTS_SHOWN = 20
/** How long a seal waits for running jobs: longer than the calls to providers. */
const SEAL_TIMEOUT_MS = 120_000
/** Each process checks the seal every second. */
const SEAL_NOTICED_MS = 2_500
const BY = commandActor('npm run recover', null)

export async function recoverCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [command = 'status'] = positionals
  if (values.help) return print(HELP)
  const perform = findCommand(COMMANDS, command)
  const config = loadConfig(env)
  await withDatabase(config, { max: 1, application_name: 'sluice-recover' }, async (sql) => {
    await perform({ sql, config, values })
  })
}

async function status({ sql, config, values }: Recover): Promise<void> {
  const state = await findSwitchState(sql)
  const held = await findHeldJobs(sql)
  const newest_at = await findNewestChange(sql)
  const switches = await findSwitches(sql, { limit: SWITCHES_SHOWN })
  const audit = await findAuditHead(sql)
  const lost_requests = await findLostRequests(sql, LOST_REQUESTS_SHOWN)
  const recorded = await describeRecorded(config)
  const protections_off = protectionsOff(config)
  if (values.json)
    return print(
      JSON.stringify(
        { ...state, held, newest_at, switches, audit, lost_requests, recorded, protections_off },
        null,
        2,
      ),
    )
  const { server, is_on_lineage, is_sealed, hold } = state
  print(`server      system ${server.system_identifier}, timeline ${server.timeline}`)
  if (!is_on_lineage)
    print('            The server that runs now is another one, or was not checked yet: start a process.')
  if (is_sealed) print('SEALED      Requests are refused, and no job starts: npm run recover -- seal --undo')
  print(`newest      ${newest_at}`)
  if (audit !== null) print(`audit log   entry ${audit.seq}, hash ${audit.hash}`)
  for (const each of switches) for (const line of describe(each)) print(line)
  if (switches.length === 0) print('switches    none')
  print(`waiting     ${HOLDS[hold ?? 'none']}`)
  for (const { queue, jobs } of held) print(`            ${quantity(jobs, 'job')} in ${queue}`)
  print(
    `lost        ${quantity(lost_requests.count, 'accepted request')}, which tenants get as events \`request.lost\``,
  )
  for (const { accepted_at, tenant_id, path, idempotency_key } of lost_requests.latest)
    print(`            ${accepted_at} ${path} of tenant ${tenant_id}, key ${idempotency_key ?? 'none'}`)
  print(`recorded    ${recorded}`)
  for (const text of protections_off) print(`unprotected ${text}`)
}

/** What Redis has recorded of accepted requests, as a text. */
async function describeRecorded(config: Config): Promise<string> {
  if (!usesRedis(config)) return 'no accepted requests: only Redis records them (REDIS_URL)'
  const queue = openQueue(queueConfig(config), { log: () => {}, process_id: newId() })
  try {
    if (queue.accepted === null) return 'no accepted requests: ACCEPTED_MAX is 0'
    const since = await queue.accepted.completeSince()
    return since === null ? 'no accepted requests yet' : `all accepted requests since ${since}`
  } catch {
    return 'unknown: Redis does not answer'
  } finally {
    await queue.close()
  }
}

const HOLDS = {
  none: 'nothing',
  payouts: 'payouts and refunds, until the lists of the providers have been read',
  creations:
    'everything that creates something at a provider, until the lists of the providers have been read',
  all: 'all jobs, until an operator runs: npm run recover -- release',
}

function describe(each: ListedSwitch): string[] {
  const { number, kind, sign, switched_at, newest_at, witnessed_at, jobs_in_doubt, lost_audit_entries } = each
  return [
    `switch ${number}    ${kind}, noticed at ${switched_at} by ${SIGNS[sign]}`,
    `            newest change before it: ${newest_at}${witnessed_at === null ? '' : `; the witness last saw the database at ${witnessed_at}`}`,
    `            ${quantity(jobs_in_doubt, 'open job')} may have been done without this database`,
    ...(lost_audit_entries === null
      ? []
      : [
          `            of the audit log, the entries ${lost_audit_entries.first} to ${lost_audit_entries.last} were lost`,
        ]),
    `            lists of the providers: ${each.lists_read_at === null ? 'being read' : `read at ${each.lists_read_at}`}`,
    `            ${each.released_at === null ? 'not released' : `released at ${each.released_at} by ${each.released_by}, messages: ${each.messages}`}`,
  ]
}

const SIGNS = {
  lineage: 'another server or timeline',
  witness: 'a witness that had seen later changes',
  operator: 'an operator',
}

async function release({ sql, values }: Recover): Promise<void> {
  const messages = requireOption(values, 'messages')
  if (!isHeldMessages(messages)) throw new ConfigError('--messages must be send or discard. See --help.')
  const reason = requireReason(values)
  const { released } = await releaseSwitches(sql, { messages, reason }, BY)
  if (values.json) return print(JSON.stringify({ released }))
  print(released.length === 0 ? 'There is no switch to release.' : `Released: switch ${released.join(', ')}.`)
}

function isHeldMessages(text: string): text is HeldMessages {
  return text === 'send' || text === 'discard'
}

async function switched({ sql, values }: Recover): Promise<void> {
  const reason = requireReason(values)
  const to = requireOption(values, 'to')
  const to_ms = Date.parse(to)
  if (Number.isNaN(to_ms) || to_ms > Date.now())
    throw new ConfigError('--to must be a time in the past, such as 2026-11-28T09:30:00Z. See --help.')
  await declareSwitch(sql, { newest_at: to, reason }, BY)
  if (values.json) return print(JSON.stringify({ switched: true }))
  print('Recorded. The processes use this server within a second. See: npm run recover -- status')
}

async function seal({ sql, values }: Recover): Promise<void> {
  const changed = await sealDatabase(sql, !values.undo, BY)
  const running = values.undo ? 0 : await waitForJobs(sql)
  if (values.json) return print(JSON.stringify({ sealed: !values.undo, changed, running }))
  if (values.undo) return print(changed ? 'The seal is ended.' : 'The database was not sealed.')
  if (running > 0)
    throw new ConfigError(
      `${quantity(running, 'job')} still run: wait until npm run queues shows none, then move the database.`,
    )
  print('Sealed: requests are refused, and no job runs. Move the database now.')
}

/**
 * Waits until no request that was admitted before the seal writes and no job runs, and returns how many jobs still run
 * after the timeout.
 */
async function waitForJobs(sql: Sql): Promise<number> {
  await sleep(SEAL_NOTICED_MS)
  const ends_at = performance.now() + SEAL_TIMEOUT_MS
  for (;;) {
    const running = await countRunningJobs(sql)
    if ((running === 0 && !(await isBeingWritten(sql))) || performance.now() > ends_at) return running
    await sleep(500)
  }
}

if (import.meta.main) await runAsProgram(recoverCommand)
