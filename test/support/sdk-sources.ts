// Generates the files of the SDK and of the dashboard's pages.
import { readFile } from 'node:fs/promises'
import { format, type FormatConfig } from 'oxfmt'
import { DECIMALS, STEPS } from '#core/money.ts'
import { EVENT_TYPE_PATTERNS } from '#domain/events.ts'
import { generateSdk } from '../../sdk/generate.ts'
import { answersFile } from '../../sdk/generate/answers.ts'
import { filtersFile } from '../../sdk/generate/filters.ts'
import { dashboardAnswers, dashboardQueries } from './dashboard-routes.ts'
import { offlineDocuments } from './offline-documents.ts'

/** The folders that contain only generated files. */
export const GENERATED = { sdk: 'sdk/src/generated', pages: 'src/dashboard/web/generated' }

/** The formatted text of each generated file, by its path from the root of the repository. */
export async function sdkSources(): Promise<Map<string, string>> {
  const config = await readFile(new URL('../../.oxfmtrc.json', import.meta.url), 'utf8')
  const {
    $schema: _schema,
    ignorePatterns: _ignore,
    ...style
  } = JSON.parse(config) as FormatConfig & object & Record<string, unknown>
  const { '/openapi.json': document } = await offlineDocuments(['/openapi.json'])
  const patterns = `// What endpoints and filters can name: all events, those of a noun, and each type.

export const EVENT_PATTERNS = ${JSON.stringify(EVENT_TYPE_PATTERNS)}`
  const currencies = `// The currencies that the API takes, each with the decimals of its amounts, and those that are settled in steps.

export const DECIMALS: Readonly<Record<string, number>> = ${JSON.stringify(DECIMALS)}

export const STEPS: Readonly<Record<'payment' | 'payout', Readonly<Record<string, number>>>> = ${JSON.stringify(STEPS)}`
  const texts: [path: string, text: string][] = [
    ...Array.from(
      generateSdk(document),
      ([path, text]) => [`${GENERATED.sdk}/${path}`, text] as [string, string],
    ),
    [`${GENERATED.pages}/answers.ts`, answersFile(document, await dashboardAnswers())],
    [`${GENERATED.pages}/currencies.ts`, currencies],
    [`${GENERATED.pages}/event-patterns.ts`, patterns],
    [`${GENERATED.pages}/filters.ts`, filtersFile(document, await dashboardQueries())],
  ]
  const files = new Map<string, string>()
  for (const [path, text] of texts) {
    const { code, errors } = await format(path, text, style)
    if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}\n${text}`)
    files.set(path, code)
  }
  return files
}
