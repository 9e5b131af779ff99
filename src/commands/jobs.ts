// `npm run jobs`: lists jobs and acts on them. Each act is recorded in the audit log.
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { ConfigError, loadConfig } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { JOB_ACTIONS, resolveAsDone, resolveAsFailed, retryJob, type Act } from '#domain/job-acts/act.ts'
import { findCall, findJob } from '#domain/job-acts/find.ts'
import { JOB_FILTERS } from '#domain/job-acts/matching.ts'
import { problemOfReference, resolveJob, UNREADABLE_REQUEST } from '#domain/job-acts/resolve.ts'
import { searchJobs } from '#domain/job-acts/search.ts'
import { systemUserName } from '#domain/people/operator-here.ts'
import { refusalReason } from '#domain/job-acts/why-not.ts'
import { withDatabase } from './database.ts'
import { actWithAuditEntry, type CommandResult } from './job-acts.ts'
import { findCommand, refuseSurplus, resolveQueueAndTenant, requireReason } from './arguments.ts'
import { formatJob, formatJobLine } from './format-job.ts'
import { print, wrapText } from './print.ts'
import { runAsProgram } from './program.ts'
import { quantity } from '#core/describe.ts'

const HELP = `sluice jobs: lists jobs, and acts on them as an operator.

  npm run jobs -- list [--state open] [--queue payments] [--resource <id>] [--tenant acme] [--limit 25]
  npm run jobs -- show    <job id>
  npm run jobs -- retry   <job id> --reason "the processor is back"
  npm run jobs -- retry   --state parked [--queue payouts] [--tenant acme] --reason "the balance is filled up"
  npm run jobs -- run-now <job id> --reason "they wait for it"
  npm run jobs -- discard <job id> --reason "asked for by mistake"
  npm run jobs -- resolve <job id> --as done --reference re_... --reason "seen in the processor's dashboard"
  npm run jobs -- resolve <job id> --as failed --reason "support says that it never arrived"
  npm run jobs -- resolve --state unknown --as failed [--queue payments] [--tenant acme] --reason "account closed"

${wrapText(`list     newest first. --state: one of ${JOB_FILTERS.join(', ')}.`, ' '.repeat(9))}
         Default: open, or all with --resource, which takes the id of a payment, for example (--payment means the same).
         --queue: one of ${QUEUES.join(', ')}.
show     prints a job with its attempts, its calls to the provider and the acts of operators.
retry    makes an open job due. For a scheduled job without an attempt use run-now. The call is sent again with the same
         idempotency key. If the key is older than 23 hours, a worker looks the call up first and sends it only if it
         never took effect.
         --state parked: all parked jobs, or those of the queue or the tenant.
run-now  makes a scheduled job due, such as a message for later. Failed attempts still count.
discard  finishes a job without performing it. Refused while a payment, payout or the like waits for its call: use
         resolve instead.
resolve  records the outcome of the call of an open job.
         --as done    for an unknown job: a worker looks the call up and settles the result. --reference names the
                      object at the provider. Not possible if the stored request cannot be read: discard the job; a
                      notification of the provider settles the row.
         --as failed  for any open job: the call never took effect and never will. Its resource is settled as failed; a
                      hold stays.
         --state unknown: all unknown jobs, or those of the queue or the tenant. A job whose call created an object
         needs --reference: resolve such jobs one by one.

A parked job does not run again until you retry it: its attempts crashed too often, or its stored data cannot be read. A
notification of an object that is not stored yet is open, not parked, and is retried automatically.
--tenant names a tenant by its slug, its twin in test mode by <slug>/test, and either by its id.
Each act needs --reason and is recorded with --by (default: your user name). --json prints JSON.
DATABASE_URL names the database. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  state: { type: 'string' },
  queue: { type: 'string' },
  resource: { type: 'string' },
  payment: { type: 'string' },
  tenant: { type: 'string' },
  limit: { type: 'string', default: '25' },
  as: { type: 'string' },
  reference: { type: 'string' },
  reason: { type: 'string' },
  by: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type JobOptions = Partial<Record<Exclude<keyof typeof OPTIONS, 'json' | 'help' | 'limit'>, string>> & {
  limit: string
  json: boolean
}

/** The reason why an open job that is not running cannot be resolved. */
const UNRECOGNIZED_CALL = 'The job has no call to a provider that this version knows.'

/** The maximum number of jobs that one search returns. */
const MAX_JOBS = 10_000

const COMMANDS = { list, show, retry, 'run-now': runNow, discard, resolve }

export async function jobsCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [command, id] = positionals
  if (values.help || command === undefined) return print(HELP)
  const perform = findCommand(COMMANDS, command)
  refuseSurplus(positionals, HELP)
  await withDatabase(loadConfig(env), { max: 1, application_name: 'sluice-jobs' }, async (sql) => {
    await perform(sql, values, id)
  })
}

async function list(sql: Sql, values: JobOptions): Promise<void> {
  const { payment, resource: resource_id = payment } = values
  if (resource_id !== undefined) uuid(resource_id, '--resource')
  const limit = Number(values.limit)
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_JOBS)
    throw new ConfigError(`--limit must be a number from 1 to ${MAX_JOBS}`)

  const default_state = resource_id === undefined ? 'open' : 'all'
  const state = oneOf(JOB_FILTERS, values.state ?? default_state, '--state')
  const of = {
    state,
    ...(await queueAndTenantFilter(sql, values)),
    ...(resource_id !== undefined && { resource_id }),
  }
  const { items: jobs } = await searchJobs(sql, of, { limit, scan_limit: Infinity })
  if (values.json) return print(JSON.stringify(jobs, null, 2))
  if (jobs.length === 0) return print('No job matches.')
  for (const job of jobs) print(formatJobLine(job))
}

async function show(sql: Sql, values: JobOptions, id: string | undefined): Promise<void> {
  const job = await findJob(sql, uuid(id, 'the job'))
  if (job === undefined) throw new ConfigError('There is no such job.')
  print(values.json ? JSON.stringify(job, null, 2) : formatJob(job))
}

async function retry(sql: Sql, values: JobOptions, id: string | undefined): Promise<void> {
  if (id === undefined) return await retryParked(sql, values)
  await act(sql, values, 'retry', id)
}

/** Retries all parked jobs that match the filters. */
async function retryParked(sql: Sql, values: JobOptions): Promise<void> {
  if (values.state !== 'parked')
    throw new ConfigError('Name a job, or retry all parked jobs with --state parked.')
  requireReason(values)
  const of = { state: 'parked' as const, ...(await queueAndTenantFilter(sql, values)) }
  const { items: parked } = await searchJobs(sql, of, { limit: MAX_JOBS, scan_limit: Infinity })
  let count = 0
  for (const { id } of parked)
    if ((await actWithAuditEntry(sql, 'retry', actOf(values, id), retryJob)) !== undefined) count += 1
  const more = parked.length === MAX_JOBS
  if (values.json) return print(JSON.stringify({ count, more }))
  print(
    `${quantity(count, 'job')} ${count === 1 ? 'is' : 'are'} due now.${more ? ' More may be parked: run this again.' : ''}`,
  )
}

async function runNow(sql: Sql, values: JobOptions, id: string | undefined): Promise<void> {
  await act(sql, values, 'run_now', id)
}

async function discard(sql: Sql, values: JobOptions, id: string | undefined): Promise<void> {
  await act(sql, values, 'discard', id)
}

async function resolve(sql: Sql, values: JobOptions, id: string | undefined): Promise<void> {
  const as = oneOf(['done', 'failed'] as const, values.as ?? '', '--as')
  if (id === undefined) return await resolveUnknown(sql, values, as === 'done')
  const request = actOf(values, id)
  const { reference = null } = values
  if (as === 'failed') {
    if (reference !== null)
      throw new ConfigError('--reference names the effect of a call that succeeded: use it with --as done.')
    const done = await actWithAuditEntry(sql, 'resolve', request, resolveAsFailed)
    return done === undefined
      ? await refuseToResolve(sql, request, UNRECOGNIZED_CALL)
      : printResult(values, done)
  }
  const call = await findCall(sql, request.job_id)
  if (call === undefined) return await refuseToResolve(sql, request, UNRECOGNIZED_CALL)
  const problem = problemOfReference(call, reference)
  if (problem !== undefined) throw new ConfigError(`--reference ${problem}`)
  if (!call.readable) throw new ConfigError(`Not possible: ${UNREADABLE_REQUEST} See --help.`)
  const done = await actWithAuditEntry(sql, 'resolve', request, (tx) => resolveAsDone(tx, request, reference))
  return done === undefined ? await refuseToResolve(sql, request) : printResult(values, done)
}

/** Resolves all unknown jobs that match the filters. */
async function resolveUnknown(sql: Sql, values: JobOptions, took_effect: boolean): Promise<void> {
  if (values.state !== 'unknown')
    throw new ConfigError('Name a job, or resolve all unknown jobs with --state unknown.')
  if (values.reference !== undefined) throw new ConfigError('--reference belongs to one job: name the job.')
  requireReason(values)
  const only = { state: 'unknown' as const }
  const { items } = await searchJobs(
    sql,
    { ...only, ...(await queueAndTenantFilter(sql, values)) },
    { limit: MAX_JOBS, scan_limit: Infinity },
  )
  const refused: string[] = []
  for (const { id } of items) {
    const request = { ...actOf(values, id), only }
    let reason = ''
    const done = await actWithAuditEntry(sql, 'resolve', request, async (tx) => {
      const resolved = await resolveJob(tx, request, { took_effect, reference: null })
      if (resolved === undefined || !('refused' in resolved)) return resolved
      reason = resolved.refused
      return undefined
    })
    if (done === undefined)
      refused.push(`${id}  ${reason || (await refusalReason(sql, 'resolve', request)).refused}`)
  }
  const count = items.length - refused.length
  const more = items.length === MAX_JOBS
  if (values.json) return print(JSON.stringify({ count, refused: refused.length, more }))
  for (const line of refused) print(line)
  print(
    `${quantity(count, 'job')} ${count === 1 ? 'is' : 'are'} resolved.${more ? ' More may be unknown: run this again.' : ''}`,
  )
}

async function queueAndTenantFilter(
  sql: Sql,
  values: JobOptions,
): Promise<{ queue?: (typeof QUEUES)[number]; tenant?: string }> {
  const { tenant_id } = await resolveQueueAndTenant(sql, values)
  const queue = QUEUES.find((each) => each === values.queue)
  return { ...(queue !== undefined && { queue }), ...(tenant_id !== undefined && { tenant: tenant_id }) }
}

function actOf(values: JobOptions, id: string | undefined): Act {
  const reason = requireReason(values)
  return { job_id: uuid(id, 'the job'), actor: values.by ?? systemUserName(), reason }
}

async function act(
  sql: Sql,
  values: JobOptions,
  name: keyof typeof JOB_ACTIONS,
  id: string | undefined,
): Promise<void> {
  const request = actOf(values, id)
  const done = await actWithAuditEntry(sql, name, request, JOB_ACTIONS[name])
  if (done !== undefined) return printResult(values, done)
  const { refused } = await refusalReason(sql, name, request)
  await refuse(sql, request, refused)
}

function printResult({ json }: JobOptions, done: NonNullable<CommandResult>): void {
  if ('settled' in done) throw new ConfigError(`Not possible: ${done.settled}; there is nothing to resolve.`)
  if (json) return print(JSON.stringify(done))
  const next =
    done.after === 'ready'
      ? 'It is due now.'
      : done.lookup_only
        ? 'Its call is looked up now, and not sent.'
        : 'It has ended.'
  print(`The job is ${done.after}. ${next}`)
}

/** Reports why a job cannot be resolved. `open`: the reason if the job is open and not running. */
async function refuseToResolve(sql: Sql, request: Act, open?: string): Promise<never> {
  // The reasons against `discard` apply to every act.
  const { before, refused } = await refusalReason(sql, 'discard', request)
  return await refuse(sql, request, before === 'ready' || before === 'unknown' ? open : refused)
}

async function refuse(sql: Sql, { job_id }: Act, reason?: string): Promise<never> {
  const job = await findJob(sql, job_id)
  if (job === undefined) throw new ConfigError('There is no such job.')
  throw new ConfigError([`Not possible: the job is ${formatJobLine(job)}`, reason].filter(Boolean).join('\n'))
}

function uuid(id: string | undefined, what: string): string {
  if (!z.uuid().safeParse(id).success)
    throw new ConfigError(`${what}: "${id ?? ''}" is not an id. See --help.`)
  return id!
}

function oneOf<T extends string>(allowed: readonly T[], value: string, option: string): T {
  const found = allowed.find((each) => each === value)
  if (found === undefined) throw new ConfigError(`${option} must be one of ${allowed.join(', ')}`)
  return found
}

if (import.meta.main) await runAsProgram(jobsCommand)
