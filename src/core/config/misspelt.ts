// Warnings about names that look like misspelt variables, which have no effect.
import { nearestName } from './near.ts'
import { fileVariableOf, SECRET_NAMES } from './secret-files.ts'
import { VARIABLE_NAMES } from './variables.ts'

type Names = Readonly<Record<string, string | undefined>>

const KNOWN_NAMES: string[] = [...VARIABLE_NAMES, ...SECRET_NAMES.map(fileVariableOf)]

/**
 * A warning for each misspelt name in the `.env` file and in the environment, and for each line of the file that is
 * ignored. `dotenv`: the text of the file. None contains a value.
 */
export function misspellings(
  file: Names,
  { dotenv, environment }: { dotenv: string; environment: Names },
): string[] {
  const isSet = (name: string) => (environment[name] ?? file[name] ?? '') !== ''
  const in_file = Object.keys(file).flatMap((name) => problemOfName(name) ?? [])
  // The environment also has the variables of other programs, which may have similar names.
  const in_environment = Object.keys(environment).flatMap((name) => problemOfName(name, isSet) ?? [])
  return [
    ...ignoredLines(dotenv).map((line) => `.env: line ${line} has no "=" and is ignored.`),
    ...in_file.map((problem) => `.env: ${problem}`),
    ...in_environment.map((problem) => `The environment: ${problem}`),
  ]
}

function problemOfName(name: string, isSet: (name: string) => boolean = () => false): string | undefined {
  if (KNOWN_NAMES.includes(name)) return undefined
  const variable = name.replace(/_FILE$/, '')
  if (variable !== name && KNOWN_NAMES.includes(variable))
    return `there is no variable ${name}: only secrets can be in files. Set ${variable}.`
  const suggestion = nearestName(name, KNOWN_NAMES) ?? nameWithMissingWord(name)
  // A name such as API_KEY is not AI_API_KEY misspelt.
  return suggestion === undefined || suggestion.endsWith(`_${name}`) || isSet(suggestion)
    ? undefined
    : `there is no variable ${name}: did you mean ${suggestion}?`
}

/** The variable from whose name words are missing in `name`: STRIPE_SECRET_KEY for STRIPE_KEY. */
function nameWithMissingWord(name: string): string | undefined {
  const words = name.toUpperCase().split('_')
  if (words.length < 2) return undefined
  return KNOWN_NAMES.find((known) => {
    const [first, ...others] = known.split('_')
    return first === words[0] && words.slice(1).every((word) => others.includes(word))
  })
}

/** The numbers of the lines that are neither an assignment nor a comment. */
function ignoredLines(dotenv: string): number[] {
  // A quoted value may have several lines.
  const text = dotenv.replaceAll(
    /=[ \t]*(["'`])[^]*?\1/g,
    (quoted) => `=${'\n'.repeat(quoted.split('\n').length - 1)}`,
  )
  return text.split('\n').flatMap((line, index) => (/^\s*(?:#|$)|=/.test(line) ? [] : [index + 1]))
}
