// `npm run audit`: whether the books hold, and every row where they do not. It reads and changes nothing.
import { parseArgs } from 'node:util'
import { ConfigError, loadConfig } from '#core/config.ts'
import { moneyText } from '#core/money.ts'
import { errorText } from '#core/startup.ts'
import { auditEverything, CHECK_NAMES, type AuditReport } from '#domain/audit/audit.ts'
import type { Problem } from '#domain/audit/checks.ts'
import { findAuditHead } from '#domain/people/audit-log.ts'
import { withDatabase } from './database.ts'
import { print } from './print.ts'

const HELP = `sluice audit: whether the invariants hold, read-only, on any Sluice database.

  npm run audit                          a report; exit code 1 when something does not hold
  npm run audit -- --json                the same as JSON
  npm run audit -- --stuck-after 600     seconds after which a job that is due and not taken counts as stuck
  npm run audit -- --timeout 600         seconds that each check may take

Checks: ${CHECK_NAMES.join(', ')}.
It also tells the last entry of the record of what people did, and its hash. Kept elsewhere, they show whether somebody who may
change everything has written that record anew: the entry of that number must still have that hash.

Exit code: 0 all holds, 1 something does not, 2 it could not be found out.
DATABASE_URL names the database, also a standby; unset, it is that of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  json: { type: 'boolean', default: false },
  'stuck-after': { type: 'string', default: '600' },
  timeout: { type: 'string', default: '600' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

async function main(): Promise<number> {
  const { values } = parseArgs({ options: OPTIONS })
  if (values.help) {
    print(HELP)
    return 0
  }
  const options = {
    stuck_after_s: seconds(values['stuck-after'], '--stuck-after'),
    timeout_ms: seconds(values.timeout, '--timeout') * 1000,
  }
  // One connection audits; the other shows the pool that the server answers.
  return await withDatabase(loadConfig(), { max: 2, application_name: 'sluice-audit' }, async (sql) => {
    const report = await auditEverything(sql, options)
    const head = await findAuditHead(sql)
    const holds = report.problems.length === 0
    const finished = report.checks.every(({ unfinished }) => !unfinished)
    if (values.json) print(JSON.stringify({ holds: holds && finished, audit_log: head, ...report }, null, 2))
    else printReport(report, head)
    return holds ? (finished ? 0 : 2) : 1
  })
}

function printReport(
  { checks, problems }: AuditReport,
  head: Awaited<ReturnType<typeof findAuditHead>>,
): void {
  for (const { check, problems: count, duration_ms, unfinished } of checks) {
    const verdict = unfinished ? 'NOT FINISHED' : count === 0 ? 'holds' : `${count} PROBLEMS`
    print(`${check.padEnd(14)} ${verdict.padEnd(14)} ${duration_ms} ms`)
  }
  if (problems.length > 0) print('')
  for (const problem of problems) print(formatProblem(problem))
  print(
    `\n${problems.length === 0 ? 'No problem was found.' : `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}.`}`,
  )
  if (head !== null) print(`The record of what people did ends with entry ${head.seq}, ${head.hash}.`)
}

function formatProblem(each: Problem): string {
  const { check, problem, what, tenant_id, subject, subject_id, id, currency } = each
  const of = subject === null || subject_id === id ? {} : { [`${subject}_id`]: subject_id }
  const formatAmount = (value: number | null) =>
    value === null || currency === null ? value : moneyText(value, currency)
  const { expected, found, off_by } = each
  const amounts = {
    expected: formatAmount(expected),
    found: formatAmount(found),
    off_by: formatAmount(off_by),
  }
  const fields = Object.entries({ tenant_id, ...of, id, ...amounts }).filter(([, value]) => value !== null)
  const rest = fields.map(([name, value]) => `${name}=${value}`).join(' ')
  return `${check}: ${problem}${what === null ? '' : ` (${what})`} ${rest}`
}

function seconds(text: string, option: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isInteger(value) || value < 0 || value > 1_000_000)
    throw new ConfigError(`${option} must be a number of seconds`)
  return value
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`${errorText(error)}\n`)
  process.exitCode = 2
}
