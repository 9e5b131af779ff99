// Secrets in files: the variable `<NAME>_FILE` names a file with the value of the secret `<NAME>`.
import { readFileSync, statSync } from 'node:fs'
import { SECRETS } from './row.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './variables.ts'

/** The paths of the files that hold secrets, by the variable of the secret. */
export type SecretFiles = { [Name in VariableName]?: string }

/** The secrets, in the order of the table of variables. */
export const SECRET_NAMES = VARIABLE_NAMES.filter((name) => SECRETS.has(VARIABLES[name][0]))

const MAX_BYTES = 64 * 1024

/** The variable that names the file of a secret. */
export function fileVariableOf(name: VariableName): string {
  return `${name}_FILE`
}

/** Whether a running process can use a new value of the secret. Otherwise a new value needs a restart. */
export function isReread(name: VariableName): boolean {
  return SECRETS.get(VARIABLES[name][0])?.is_reread === true
}

/**
 * Reads the secrets that are in files. `environment`: the given one, completed with their values. `problems`: a text
 * for each file that cannot be used.
 */
export function readSecretFiles(given: Record<string, string | undefined>): {
  environment: Record<string, string | undefined>
  files: SecretFiles
  problems: string[]
} {
  const environment = { ...given }
  const files: SecretFiles = {}
  const problems: string[] = []
  for (const name of SECRET_NAMES) {
    const path = given[fileVariableOf(name)] ?? ''
    if (path === '') continue
    files[name] = path
    if ((given[name] ?? '') !== '') {
      problems.push(`  ${name} and ${fileVariableOf(name)} are both set. Unset one of them.`)
      // Which of them is meant is not known: no other problem of the value is reported.
      delete environment[name]
    } else {
      const read = readSecretFile(name, path)
      if ('problem' in read) problems.push(`  ${read.problem}`)
      else environment[name] = read.value
    }
  }
  return { environment, files, problems }
}

/**
 * The value of a secret in a file, without one line break at its end. `problem`: why the file cannot be used; it names
 * the variable, the file and the remedy, and contains no part of the file's content.
 */
export function readSecretFile(name: VariableName, path: string): { value: string } | { problem: string } {
  const problem = (what: string, remedy: string) => ({
    problem: `${fileVariableOf(name)}: ${path} ${what}. ${remedy}`,
  })
  try {
    const file = statSync(path)
    if (!file.isFile())
      return problem(`is ${file.isDirectory() ? 'a folder' : 'not a file'}`, 'Name the file with the value.')
    if (file.size > MAX_BYTES)
      return problem(`is larger than ${MAX_BYTES / 1024} KiB`, 'Name the file with the value alone.')
    const value = readFileSync(path, 'utf8').replace(/\r?\n$/, '')
    return value === '' ? problem('is empty', 'Write the value into it.') : { value }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return problem(
      `cannot be read (${code ?? message})`,
      code === 'ENOENT' || code === 'ENOTDIR'
        ? 'Create it, or correct the path.'
        : 'Make it a file that this user may read.',
    )
  }
}

/** The text for a file whose content is not a valid value. `problem`: that of the value. */
export function invalidSecret(name: VariableName, path: string, value: string, problem: string): string {
  const shown = value === value.trim() ? problem : 'begins or ends with white space'
  return `${fileVariableOf(name)}: the content of ${path} ${shown}. Example of a content: ${VARIABLES[name][1]}`
}
