// Reads the files of secrets again while the process runs.
import { isDeepStrictEqual } from 'node:util'
import type { Config } from '../config.ts'
import { list } from './list.ts'
import { parseVariable } from './parse.ts'
import { fileVariableOf, invalidSecret, isReread, readSecretFile, SECRET_NAMES } from './secret-files.ts'
import type { VariableName } from './variables.ts'

/** Returns why this process cannot use a new value of a secret, without the value; null if it can. */
export type CheckNewSecret = (name: VariableName, value: string) => Promise<string | null>

export type RereadReport = {
  /** The secrets whose new value is in use. */
  changed: VariableName[]
  /** The secrets with a new value that this process can use only after a restart. */
  need_restart: VariableName[]
  /** A text for each file whose value is not used. */
  problems: string[]
}

/**
 * Reads the files of secrets again and puts their new values into `config`. A value that cannot be used, or in which
 * `check` finds a problem, leaves the previous one; so does a check that throws. The report contains no values.
 */
export async function rereadSecrets(config: Config, check: CheckNewSecret): Promise<RereadReport> {
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
    const parsed = parseVariable(name, read.value)
    if ('problem' in parsed) report.problems.push(invalidSecret(name, file, read.value, parsed.problem))
    else if (isDeepStrictEqual(parsed.data, values[name])) continue
    else if (!isReread(name)) report.need_restart.push(name)
    else {
      const problem =
        name === 'ENCRYPTION_KEY'
          ? problemOfNewKeys(config.ENCRYPTION_KEY ?? '', read.value)
          : await problemOfNewValue(check, name, read.value)
      if (problem !== null) report.problems.push(`${fileVariableOf(name)}: ${problem}`)
      else {
        values[name] = parsed.data
        report.changed.push(name)
      }
    }
  }
  return report
}

/** A list without the key that encrypts now would leave stored texts that this process cannot decrypt. */
function problemOfNewKeys(present: string, next: string): string | null {
  const [encrypting = ''] = list(present)
  return list(next).includes(encrypting)
    ? null
    : 'the new list lacks the key that is first now, so what it encrypted could not be decrypted. List the new key and the present one, separated by a comma.'
}

/** The problem that `check` finds. An error of one check must not keep the other secrets from being read. */
async function problemOfNewValue(
  check: CheckNewSecret,
  name: VariableName,
  value: string,
): Promise<string | null> {
  try {
    return await check(name, value)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return `the new value could not be checked (${reason.replaceAll(value, '...')}). Send SIGHUP again when the cause is removed.`
  }
}
