// Logs that cannot be written: the work goes on, and the processes end when they are told to.
import { open } from 'node:fs/promises'
import { freePort } from '#start/ports.ts'
import { HOST } from '#test/environment.ts'
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import { metricAt, metricOf } from '../gauges.ts'
import type { Random } from '../random.ts'
import type { Member, System } from '../system.ts'
import { capturePayment } from './ask.ts'
import type { Fault } from './fault.ts'

const LOST_LINES_METRIC = 'sluice_log_lines_lost_total'
/** Their lines fill what is between a process and its reader. */
const LOGGED_REQUESTS = 700
const BATCH_SIZE = 50

export const LOG_FAULTS: Fault[] = [
  {
    name: 'log-disk-full',
    about: 'APIs and workers that log to a full disk: they lose lines and nothing else, and end when told to',
    duration_ms: 20_000,
    recovery_limit_ms: 6000,
    inflict: fillDisk,
  },
  {
    name: 'log-reader-gone',
    about: 'nobody reads the log of an API any more, and those of the others are closed: the same',
    duration_ms: 14_000,
    recovery_limit_ms: 6000,
    inflict: detachLogReaders,
  },
]

async function fillDisk(system: System, random: Random): Promise<Problem[]> {
  const full = await open('/dev/full', 'w')
  const members = [...system.apis, ...system.workers]
  const restart_options = { env: { METRICS_PORT: '0' }, output: undefined }
  try {
    return await withoutLogs(system, random, members, restart_options, async () => {
      const urls: string[] = []
      for (const member of members) urls.push(await logTo(member, full.fd))
      await Promise.all(urls.map((url) => untilLinesLost(() => metricAt(url, LOST_LINES_METRIC))))
    })
  } finally {
    await full.close()
  }
}

async function detachLogReaders(system: System, random: Random): Promise<Problem[]> {
  const { apis, workers, clients } = system
  const unread = random.between(0, apis.length - 1)
  const members = [...apis, ...workers]
  const closed = members.filter((member) => member !== apis[unread])
  for (const member of closed) member.process().closeOutput()
  apis[unread]!.process().stopReading()
  return await withoutLogs(system, random, members, {}, async () => {
    for (let asked = 0; asked < LOGGED_REQUESTS; asked += BATCH_SIZE)
      await Promise.all(Array.from({ length: BATCH_SIZE }, () => clients[unread]!.get('/v1/customers/none')))
    await Promise.all(closed.map((member) => untilLinesLost(() => metricOf(member, LOST_LINES_METRIC))))
  })
}

/**
 * A payment goes through while nothing can be logged; then each process is told to end, and does. It is started `again` before the
 * next one ends, however this comes out.
 */
async function withoutLogs(
  system: System,
  random: Random,
  members: Member[],
  restart_options: Parameters<Member['start']>[0],
  lose: () => Promise<unknown>,
): Promise<Problem[]> {
  const problems: Problem[] = []
  const failed: unknown[] = []
  const attempt = async (step: () => Promise<unknown>) =>
    await step().catch((error: unknown) => failed.push(error))
  await attempt(async () => {
    await lose()
    await capturePayment(system, `without-logs-${random.between(0, 1e9)}`)
  })
  for (const member of members)
    await attempt(async () => {
      // One that hangs takes a minute; the others have to be back before this fault is over.
      await member.kill(problems.length === 0 ? 'SIGTERM' : 'SIGKILL')
      const how = await member.process().ended
      if (problems.length === 0 && how.code !== 0)
        problems.push({
          problem: 'a process that could not log did not end when it was told to',
          name: member.name,
          how,
        })
      await member.start(restart_options)
    })
  if (failed.length > 0)
    throw new AggregateError(
      failed,
      [...failed.map(String), ...problems.map(({ problem }) => problem)].join('; '),
    )
  return problems
}

async function untilLinesLost(lost: () => Promise<number>): Promise<void> {
  await until('lines of the log are lost', async () => (await lost()) > 0)
}

/** Starts it again with its log there; answers where its metrics are. */
async function logTo(member: Member, output: number): Promise<string> {
  const port = await freePort(HOST)
  const url = `http://${HOST}:${port}`
  await member.kill('SIGTERM')
  await member.start({ env: { METRICS_PORT: String(port) }, output })
  await until('it is ready', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok)
  return url
}
