// `npm run queues`: lists the queues with their open jobs, and pauses or resumes queues and tenants.
import { parseArgs } from 'node:util'
import { ConfigError, loadConfig } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { quantity } from '#core/describe.ts'
import { findPauses, pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import { MAX_REASON_LENGTH } from '#domain/jobs/reason.ts'
import { findRetryingOfQueues } from '#domain/jobs/retrying.ts'
import { countOpenJobs } from '#domain/jobs/states.ts'
import { findOutagesOfQueues } from '#domain/operations/provider-outages.ts'
import { findHeldJobs, isSealed } from '#domain/switches/find.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { withDatabase } from './database.ts'
import { findCommand, refuseSurplus, resolveQueueAndTenant, requireReason } from './arguments.ts'
import { print, terminalText } from './print.ts'
import { runAsProgram } from './program.ts'

const HELP = `sluice queues: lists, pauses and resumes queues.

  npm run queues
  npm run queues -- pause  [<queue>] [--tenant acme] --reason "the bank asked us to wait"
  npm run queues -- resume [<queue>] [--tenant acme]

list    the default: prints each queue with its open jobs, the retrying jobs among them (their last attempt failed), the
        outages of their providers, all pauses, and whether the database is SEALED or jobs are HELD since a switch.
pause   pauses a queue, a tenant, or a tenant in a queue. Requests are still accepted, and their jobs wait. Within a
        second no new call to a provider starts; a call in progress finishes.
resume  ends this pause. Other pauses, such as one of the whole tenant, stay.

--tenant names a tenant by its slug, its twin in test mode by <slug>/test, and either by its id.
Queues: ${QUEUES.join(', ')}.
--json prints JSON. DATABASE_URL names the database. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  tenant: { type: 'string' },
  reason: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type QueueOptions = { tenant?: string; reason?: string; json: boolean }

const COMMANDS = { list, pause, resume }

export async function queuesCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [command = 'list', queue] = positionals
  if (values.help) return print(HELP)
  const perform = findCommand(COMMANDS, command)
  refuseSurplus(positionals, HELP)
  await withDatabase(loadConfig(env), { max: 1, application_name: 'sluice-queues' }, async (sql) => {
    await perform(sql, values, queue)
  })
}

async function list(sql: Sql, { json }: QueueOptions): Promise<void> {
  const counts = new Map((await countOpenJobs(sql)).map(({ queue, ...count }) => [queue, count]))
  const retrying_jobs = await findRetryingOfQueues(sql)
  const outages = await findOutagesOfQueues(sql)
  const queues = QUEUES.map((queue) => {
    const { retrying = 0, oldest_s = 0 } = retrying_jobs.get(queue) ?? {}
    return {
      queue,
      ...(counts.get(queue) ?? NO_JOBS),
      retrying,
      oldest_retrying_s: oldest_s,
      outages: outages.get(queue) ?? [],
    }
  })
  const pauses = await findPauses(sql)
  const held = await findHeldJobs(sql)
  if (json) return print(JSON.stringify({ queues, pauses, held }, null, 2))
  for (const { queue, oldest_due_s, oldest_retrying_s, outages: of_queue, ...count } of queues) {
    const numbers = Object.entries(count).map(([state, number]) => `${state} ${number}`.padEnd(16))
    const ages = [
      ...(oldest_due_s > 0 ? [`oldest due ${oldest_due_s} s`] : []),
      ...(count.retrying > 0 ? [`oldest retrying ${oldest_retrying_s} s`] : []),
      ...of_queue,
    ]
    print([queue.padEnd(16), ...numbers, ages.join(', ')].join('').trimEnd())
  }
  if (await isSealed(sql)) print('SEALED  the database is being moved, and no job starts: npm run recover')
  const held_jobs = held.reduce((sum, { jobs }) => sum + jobs, 0)
  if (held_jobs > 0)
    print(`HELD    ${quantity(held_jobs, 'job')} since a switch of the database: npm run recover`)
  for (const { queue, tenant, since, reason, actor } of pauses) {
    const target = [queue && `queue ${queue}`, tenant && `tenant ${tenant}`].filter(Boolean).join(', ')
    print(
      `PAUSED  ${target}  since ${since}${actor === null ? '' : ` by ${terminalText(actor)}`}${reason === null ? '' : `: ${terminalText(reason, MAX_REASON_LENGTH)}`}`,
    )
  }
}

const NO_JOBS = { due: 0, later: 0, running: 0, unknown: 0, parked: 0, oldest_due_s: 0 }

async function pause(sql: Sql, values: QueueOptions, queue: string | undefined): Promise<void> {
  const reason = requireReason(values)
  const target = await pauseTargetOf(sql, values, queue)
  const is_new = (await pauseJobs(sql, { ...target, reason }, actorOf(target))) !== undefined
  if (values.json) return print(JSON.stringify({ paused: true, is_new }))
  print(
    is_new
      ? 'Paused.'
      : 'The queue or tenant was already paused. `npm run queues -- list` shows when and why.',
  )
}

async function resume(sql: Sql, values: QueueOptions, queue: string | undefined): Promise<void> {
  const target = await pauseTargetOf(sql, values, queue)
  const lifted = (await resumeJobs(sql, target, actorOf(target))) !== undefined
  if (values.json) return print(JSON.stringify({ paused: false, lifted }))
  print(lifted ? 'Resumed.' : 'There was no such pause. `npm run queues -- list` shows all pauses.')
}

function actorOf({ tenant_id }: { tenant_id?: string }): Actor {
  return commandActor('npm run queues', tenant_id ?? null)
}

/**
 * The queue and tenant to pause. Errors: ConfigError if the queue or the tenant does not exist, or neither is named.
 */
async function pauseTargetOf(
  sql: Sql,
  { tenant }: QueueOptions,
  queue: string | undefined,
): Promise<{ queue?: string; tenant_id?: string }> {
  if (queue === undefined && tenant === undefined)
    throw new ConfigError('Name a queue, a tenant or both. See --help.')
  return await resolveQueueAndTenant(sql, { queue, tenant })
}

if (import.meta.main) await runAsProgram(queuesCommand)
