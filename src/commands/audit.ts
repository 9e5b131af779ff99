// `npm run audit`: checks the invariants of the ledger and prints each row that breaks one. Read-only.
import { parseArgs } from 'node:util'
import { ConfigError, loadConfig } from '#core/config.ts'
import { moneyText } from '#core/money.ts'
import { errorText } from '#core/startup.ts'
import { auditEverything, CHECK_NAMES, type AuditReport } from '#domain/audit/audit.ts'
import type { Problem } from '#domain/audit/checks.ts'
import { findAuditHead } from '#domain/people/audit-log.ts'
import { withDatabase } from './database.ts'
import { print, printError, terminalText, wrapText } from './print.ts'
import { runAsProgram } from './program.ts'
import { quantity } from '#core/describe.ts'

const HELP = `sluice audit: checks the invariants of a Sluice database. Read-only.

  npm run audit                          prints a report; exit code 1 if an invariant does not hold
  npm run audit -- --json                prints the report as JSON
  npm run audit -- --stuck-after 600     seconds after which a due job that no worker has claimed counts as stuck
  npm run audit -- --timeout 600         time limit of each check, in seconds

${wrapText(`Checks: ${CHECK_NAMES.join(', ')}.`)}
The report ends with the number and the hash of the last entry of the audit log. Store both outside of this system: if
the entry of that number has another hash later, the audit log was rewritten.

Exit code: 0 all invariants hold, 1 one does not hold, 2 a check could not finish.
DATABASE_URL names the database; a standby works too. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  json: { type: 'boolean', default: false },
  'stuck-after': { type: 'string', default: '600' },
  timeout: { type: 'string', default: '600' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

export async function auditCommand(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  try {
    return await audit(args, env)
  } catch (error) {
    printError(errorText(error))
    return 2
  }
}

async function audit(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS })
  if (values.help) {
    print(HELP)
    return 0
  }
  const options = {
    stuck_after_s: seconds(values['stuck-after'], '--stuck-after'),
    timeout_ms: seconds(values.timeout, '--timeout') * 1000,
  }
  // One connection runs the checks; the pool uses the other to test whether the server answers.
  return await withDatabase(loadConfig(env), { max: 2, application_name: 'sluice-audit' }, async (sql) => {
    const report = await auditEverything(sql, options)
    const head = await findAuditHead(sql)
    const holds = report.problems.length === 0
    const finished = report.checks.every(({ unfinished }) => !unfinished)
    if (values.json) print(JSON.stringify({ holds: holds && finished, audit_log: head, ...report }, null, 2))
    else printReport(report, head)
    return holds ? (finished ? 0 : 2) : 1
  })
}

/** Prints the report of an audit, and the last entry of the audit log. */
export function printReport(
  { checks, problems }: AuditReport,
  head: Awaited<ReturnType<typeof findAuditHead>>,
): void {
  for (const { check, problems: count, duration_ms, unfinished } of checks) {
    const verdict = unfinished ? 'NOT FINISHED' : count === 0 ? 'holds' : `${count} PROBLEMS`
    print(`${check.padEnd(14)} ${verdict.padEnd(14)} ${duration_ms} ms`)
  }
  if (problems.length > 0) print('')
  for (const problem of problems) print(formatProblem(problem))
  print(`\n${problems.length === 0 ? 'No problem was found.' : `${quantity(problems.length, 'problem')}.`}`)
  if (head !== null) print(terminalText(`The audit log ends with entry ${head.seq}, ${head.hash}.`))
}

function formatProblem(each: Problem): string {
  const { check, problem, what, tenant_id, resource, resource_id, id, currency } = each
  const of = resource === null || resource_id === id ? {} : { [`${resource}_id`]: resource_id }
  const formatAmount = (value: number | null) =>
    value === null || currency === null ? value : moneyText(value, currency)
  const { expected, found, off_by } = each
  const amounts = {
    expected: formatAmount(expected),
    found: formatAmount(found),
    off_by: formatAmount(off_by),
  }
  const fields = Object.entries({ tenant_id, ...of, id, ...amounts }).filter(([, value]) => value !== null)
  const rest = fields.map(([name, value]) => `${name}=${terminalText(String(value))}`).join(' ')
  return `${check}: ${problem}${what === null ? '' : ` (${terminalText(what)})`} ${rest}`
}

function seconds(text: string, option: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isInteger(value) || value < 0 || value > 1_000_000)
    throw new ConfigError(`${option} must be a whole number of seconds`)
  return value
}

if (import.meta.main) await runAsProgram(auditCommand)
