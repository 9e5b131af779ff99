// Formats jobs for a terminal.
import type { JobDetail, ListedJob } from '#domain/job-acts/find.ts'
import { terminalText } from './print.ts'

/** A job on one line. */
export function formatJobLine({ id, state, parked, name, tenant, tenant_id, ...job }: ListedJob): string {
  return [
    id,
    parked ? `${state} (parked)` : state,
    name,
    tenant ?? tenant_id,
    job.resource_id === null ? '' : `${job.resource ?? 'of'} ${job.resource_id}`,
    job.unknown_since === null ? '' : `unknown since ${job.unknown_since}`,
    job.failing_since === null ? '' : `retrying since ${job.failing_since}`,
    job.finished_at !== null ? `ended ${job.finished_at}` : job.run_at === null ? '' : `due ${job.run_at}`,
    terminalText(job.error ?? '', Infinity),
  ]
    .filter((text) => text !== '')
    .join('  ')
}

/** A job with its attempts, calls, postings and operator acts. */
export function formatJob(job: JobDetail): string {
  const { attempts, calls, postings, acts, ...facts } = job
  const lines = Object.entries(facts).map(
    ([name, value]) =>
      `${name.padEnd(16)} ${typeof value === 'string' ? terminalText(value, Infinity) : JSON.stringify(value)}`,
  )
  const rows = (title: string, of: Record<string, unknown>[]) => [
    `\n${title}`,
    ...of.map((row) =>
      Object.entries(row)
        .filter(([, value]) => value !== null)
        .map(([name, value]) => `  ${name}=${terminalText(String(value), Infinity)}`)
        .join(''),
    ),
  ]
  return [
    ...lines,
    ...rows('attempts', attempts),
    ...rows('calls', calls),
    ...rows('postings', postings),
    ...rows('operator acts', acts),
  ].join('\n')
}
