// Reads the files of secrets again while the process runs.
import type { Config } from '../config.ts'
import { describeIssue } from '../describe.ts'
import { fileVariableOf, invalidSecret, isReread, readSecretFile, SECRET_NAMES } from './secret-files.ts'
import { VARIABLES, type VariableName } from './variables.ts'

/** Returns why this process cannot use a new value of a secret, without the value; null if it can. */
export type RefuseSecret = (name: VariableName, value: string) => Promise<string | null>

export type RereadReport = {
  /** The secrets whose new value is in use. */
  changed: VariableName[]
  /** The secrets with a new value that this process can use only after a restart. */
  need_restart: VariableName[]
  /** A text for each file whose value is not used. */
  problems: string[]
}

/**
 * Reads the files of secrets again and puts their new values into `config`. A value that cannot be used, or that
 * `refuse` refuses, leaves the previous one. The report contains no values.
 */
export async function rereadSecrets(config: Config, refuse: RefuseSecret): Promise<RereadReport> {
  const report: RereadReport = { changed: [], need_restart: [], problems: [] }
  const values: Record<string, unknown> = config
  for (const name of SECRET_NAMES) {
    const file = config.secret_files[name]
    if (file === undefined) continue
    const read = readSecretFile(name, file)
    if ('problem' in read) {
      report.problems.push(read.problem)
      continue
    }
    const { data, error } = VARIABLES[name][0].safeParse(read.value, { error: describeIssue })
    if (error !== undefined) report.problems.push(invalidSecret(name, file, error.issues[0]!.message))
    else if (data === values[name]) continue
    else if (!isReread(name)) report.need_restart.push(name)
    else {
      const refusal = await refuse(name, read.value)
      if (refusal !== null) report.problems.push(`${fileVariableOf(name)}: ${refusal}`)
      else {
        values[name] = data
        report.changed.push(name)
      }
    }
  }
  return report
}
