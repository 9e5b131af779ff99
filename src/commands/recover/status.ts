// `npm run recover -- status`: the switches of the database, and what waits since them.
import { usesRedis, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { quantity } from '#core/describe.ts'
import { findLostRequests } from '#domain/lost-requests/report.ts'
import { findAuditHead } from '#domain/people/audit-log.ts'
import { countUnknown } from '#domain/jobs/states.ts'
import {
  findHeldJobs,
  findNewestChange,
  findSwitches,
  findSwitchState,
  isOnRecord,
  type ListedSwitch,
  type SwitchState,
} from '#domain/switches/find.ts'
import { acceptedKeysOf } from '#domain/switches/kept-facts.ts'
import { isBehind } from '#domain/switches/newest.ts'
import { protectionsOff } from '#domain/switches/protections.ts'
import { print, terminalText } from '../print.ts'
import { askWitnesses, durationText, NO_KEY } from './newest.ts'
import type { Recover } from './options.ts'
import { withQueue } from './queue.ts'
import { findWriters } from './seal.ts'

type Recording = NonNullable<SwitchState['recording']>

const SWITCHES_SHOWN = 10
const LOST_REQUESTS_SHOWN = 20
const IF_RESTORED = 'If it was restored, run npm run recover -- switched before a process starts.'

export async function status({ sql, config, values }: Recover): Promise<void> {
  const state = await findSwitchState(sql)
  const held = await findHeldJobs(sql)
  const unknown = await countUnknown(sql)
  const newest_at = await findNewestChange(sql)
  const switches = await findSwitches(sql, { limit: SWITCHES_SHOWN })
  const audit = await findAuditHead(sql)
  const lost_requests = await findLostRequests(sql, LOST_REQUESTS_SHOWN)
  const witness = await compareWithWitness(sql, config)
  const recorded = await describeRecorded(sql, config)
  // The key is that of this command: the processes have their own.
  const witness_problems = witness.problems.filter((problem) => problem !== NO_KEY)
  const protections_off = protectionsOff(config, witness_problems)
  if (values.json)
    return print(
      JSON.stringify(
        {
          ...state,
          held,
          unknown,
          newest_at,
          witness,
          switches,
          audit,
          lost_requests,
          recorded,
          protections_off,
        },
        null,
        2,
      ),
    )
  const { server, is_on_lineage, is_sealed, recording, failing_lists, unanswered_lookups } = state
  print(`server      system ${server.system_identifier}, timeline ${server.timeline}`)
  if (is_sealed) await printSeal(sql, witness)
  else if (!is_on_lineage) {
    print('            The server that runs now is another one, or no process has checked it yet.')
    print(
      witness.seen_at === null
        ? `            No witness remembers it. ${IF_RESTORED}`
        : '            Start a process: it compares the server with what a witness remembers.',
    )
  }
  if (recording !== null) printRecording(recording)
  printNewestChange(newest_at, witness)
  if (audit !== null) print(`audit log   entry ${audit.seq}, hash ${audit.hash}`)
  for (const each of switches) for (const line of describe(each)) print(line)
  if (switches.length === 0) print('switches    none')
  for (const [nth, text] of waitingTexts(state).entries())
    print(`${(nth === 0 ? 'waiting' : '').padEnd(12)}${text}`)
  for (const { queue, jobs } of held) print(`            ${quantity(jobs, 'job')} in ${queue}`)
  if (unknown > 0) print(`unknown     ${quantity(unknown, 'job')}: npm run jobs -- list --state unknown`)
  for (const { provider, list, failing_since, error } of failing_lists)
    print(
      `failing     the list ${terminalText(list)} of ${terminalText(provider)} cannot be read since ${failing_since}: ${terminalText(error)}`,
    )
  if (unanswered_lookups !== null) {
    const { count, oldest_at } = unanswered_lookups
    print(
      `unanswered  ${quantity(count, 'lookup')} without an answer of the provider, the oldest since ${oldest_at}`,
    )
    print('            They are repeated: npm run jobs -- list --state retrying --queue notifications')
  }
  if ((failing_lists.length > 0 || unanswered_lookups !== null) && state.awaiting_lists.length > 0)
    print('            If that cannot be mended: npm run recover -- release --without-lists. See --help.')
  print(
    `lost        ${quantity(lost_requests.count, 'accepted request')}, which tenants get as events \`request.lost\``,
  )
  for (const { accepted_at, tenant, path, idempotency_key } of lost_requests.latest)
    print(
      `            ${accepted_at} ${terminalText(path)} of tenant ${terminalText(tenant)}, key ${terminalText(idempotency_key ?? 'none')}`,
    )
  print(`recorded    ${recorded}`)
  for (const text of protections_off) print(`unprotected ${text}`)
}

/** What a witness remembers of the database. `is_behind`: the database has lost changes that the witness has seen. */
type WitnessComparison = { seen_at: string | null; is_behind: boolean; problems: string[] }

async function compareWithWitness(sql: Sql, config: Config): Promise<WitnessComparison> {
  const { newest, problems } = await askWitnesses(sql, config)
  const is_behind = newest !== null && (await isBehind(sql, newest))
  return {
    seen_at: newest?.clock ?? null,
    is_behind,
    problems: problems.map((problem) => terminalText(problem)),
  }
}

function printNewestChange(newest_at: string, { seen_at, is_behind, problems }: WitnessComparison): void {
  if (is_behind && seen_at !== null) {
    const behind_s = Math.max(0, Math.round((Date.parse(seen_at) - Date.parse(newest_at)) / 1000))
    print(
      `newest      ${newest_at}: BEHIND the witness, which saw the database ${durationText(behind_s)} later`,
    )
    print(
      `            Changes until ${seen_at} are missing here, and no switch records that: start a process.`,
    )
  } else print(`newest      ${newest_at}`)
  for (const problem of problems) print(`            not compared with a witness: ${problem}`)
}

async function printSeal(sql: Sql, { seen_at }: WitnessComparison): Promise<void> {
  if (await isOnRecord(sql)) {
    print('SEALED      Requests are refused, and no job starts. To end that: npm run recover -- seal --undo')
    const writers = await findWriters(sql)
    if (writers.length === 0) print('            Nothing is written any more: the database may be moved.')
    for (const writer of writers) print(`            may still write: ${writer}`)
    return
  }
  print('SEALED      on another server. If the database has moved here, start a process: it ends the seal.')
  if (seen_at === null) print(`            ${IF_RESTORED}`)
}

/** What Redis has recorded of accepted requests, as a text. */
async function describeRecorded(sql: Sql, config: Config): Promise<string> {
  const { ENCRYPTION_KEY } = config
  if (!usesRedis(config)) return 'no accepted requests: only Redis records them (REDIS_URL)'
  if (ENCRYPTION_KEY === undefined) return `unknown: ${NO_KEY}`
  const recorded = await withQueue(
    config,
    async ({ accepted }) => accepted && (await accepted.completeness().catch(() => 'no answer' as const)),
    acceptedKeysOf(sql, () => ENCRYPTION_KEY),
  )
  if (recorded === null) return 'no accepted requests: ACCEPTED_MAX is 0'
  if (recorded === 'no answer') return 'unknown: Redis does not answer'
  const { since, unverified } = recorded
  const readable = since === null ? 'no accepted requests' : `all accepted requests since ${since}`
  if (unverified === 0) return since === null ? `${readable} yet` : readable
  return `${readable}; ${quantity(unverified, 'earlier record')} cannot be verified: signed with a key that is no longer in ENCRYPTION_KEY, or written by somebody else`
}

/** What waits since a switch, one text for each reason. */
function waitingTexts({ hold, holds_messages, holds_sms, recording, is_sealed }: SwitchState): string[] {
  if (is_sealed) return ['all jobs, because the database is sealed']
  if (recording !== null) return ['all jobs, until the switch is recorded completely']
  const texts = hold === null ? [] : [HOLDS[hold]]
  if (holds_messages && hold !== 'all') texts.push('messages that were accepted before the switch')
  if (holds_sms) texts.push('SMS that were accepted before the switch, until the received SMS have been read')
  return texts.length === 0 ? ['nothing'] : texts
}

const HOLDS = {
  payouts: 'payouts and refunds, until the lists of the providers have been read',
  creations:
    'everything that creates something at a provider, until the lists of the providers have been read',
  all: 'all jobs, until an operator runs: npm run recover -- release --messages send|discard --reason "..."',
}

function printRecording({ number, sign, newest_at, since, jobs_left, feeds_left }: Recording): void {
  const left = `${quantity(jobs_left, 'open job')} and ${quantity(feeds_left, 'feed')} are left`
  print(`RECORDING   switch ${number} is not recorded completely, since ${since}: ${left}`)
  print(
    sign === 'operator'
      ? `            If the command was stopped, run it again: npm run recover -- switched --to ${newest_at} --reason "..."`
      : '            The processes record it: start one.',
  )
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
    `            lists of the providers: ${describeLists(each, each.lists_read_at)}`,
    ...describeReceivedSms(each),
    `            ${each.released_at === null ? 'not released' : `released at ${each.released_at} by ${terminalText(each.released_by ?? 'unknown')}, messages: ${each.messages}`}`,
  ]
}

function describeReceivedSms(each: ListedSwitch): string[] {
  if (each.opt_outs_read_at === null && !each.is_reading_opt_outs) return []
  return [`            received SMS: ${describeLists(each, each.opt_outs_read_at)}`]
}

function describeLists({ lists_waived_at, lists_waived_by }: ListedSwitch, read_at: string | null): string {
  if (read_at !== null) return `read at ${read_at}`
  if (lists_waived_at === null) return 'being read'
  return `being read, but nothing waits for them: decided at ${lists_waived_at} by ${terminalText(lists_waived_by ?? 'unknown')}`
}

const SIGNS = {
  lineage: 'another server or timeline',
  witness: 'a witness that had seen later changes',
  operator: 'an operator',
}
