// Faults of log output: work continues, and processes still end on SIGTERM.
import { open } from 'node:fs/promises'
import { freePort } from '#start/ports.ts'
import { HOST } from '#test/environment.ts'
import type { Problem } from '#test/invariants.ts'
import { until } from '#test/process.ts'
import { readMetric } from '#test/served-metrics.ts'
import { metricOf } from '../metrics.ts'
import type { Random } from '../random.ts'
import type { Member } from '../member.ts'
import type { System } from '../system.ts'
import { capturePayment } from './requests.ts'
import type { Fault } from './fault.ts'

const LOST_LINES_METRIC = 'sluice_log_lines_lost_total'
/** The number of requests whose log lines fill the pipe between the process and its reader. */
const LOGGED_REQUESTS = 700
const BATCH_SIZE = 50

export const LOG_FAULTS: Fault[] = [
  {
    name: 'log-disk-full',
    about: 'APIs and workers log to a full disk: they lose only log lines, and end on SIGTERM',
    duration_ms: 20_000,
    recovery_limit_ms: 6000,
    inflict: fillDisk,
  },
  {
    name: 'log-reader-closed',
    about: 'the log of one API is not read any more and those of the others are closed: the same',
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
      await Promise.all(urls.map((url) => untilLinesLost(() => readMetric(url, LOST_LINES_METRIC))))
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
    for (let sent = 0; sent < LOGGED_REQUESTS; sent += BATCH_SIZE)
      await Promise.all(Array.from({ length: BATCH_SIZE }, () => clients[unread]!.get('/v1/customers/none')))
    await Promise.all(closed.map((member) => untilLinesLost(() => metricOf(member, LOST_LINES_METRIC))))
  })
}

/**
 * Checks that, while logs cannot be written, a payment succeeds and each process ends on SIGTERM. Each process is
 * started again before the next one ends, even after a failure.
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
      // The wait for a process that hangs takes a minute. After the first such process, the other processes are killed,
      // so that all run again before the fault ends.
      await member.kill(problems.length === 0 ? 'SIGTERM' : 'SIGKILL')
      const how = await member.process().ended
      if (problems.length === 0 && how.code !== 0)
        problems.push({
          problem: 'a process that could not log did not end on SIGTERM',
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

async function untilLinesLost(lostLines: () => Promise<number | undefined>): Promise<void> {
  await until('log lines are lost', async () => ((await lostLines()) ?? 0) > 0)
}

/** Restarts the process with its log on this descriptor. Returns the URL of its metrics. */
async function logTo(member: Member, output: number): Promise<string> {
  const port = await freePort(HOST)
  const url = `http://${HOST}:${port}`
  await member.kill('SIGTERM')
  await member.start({ env: { METRICS_PORT: String(port) }, output })
  await until('the process is ready', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok)
  return url
}
