// The generated files of the SDK, as they have to be.
import { readFile } from 'node:fs/promises'
import { format, type FormatConfig } from 'oxfmt'
import { generateSdk } from '../../sdk/generate.ts'
import { offlineDocuments } from './offline-documents.ts'

/** By path from `sdk/src/generated`, formatted. */
export async function sdkSources(): Promise<Map<string, string>> {
  const config = await readFile(new URL('../../.oxfmtrc.json', import.meta.url), 'utf8')
  const {
    $schema: _schema,
    ignorePatterns: _ignore,
    ...style
  } = JSON.parse(config) as FormatConfig & object & Record<string, unknown>
  const { '/openapi.json': document } = await offlineDocuments(['/openapi.json'])
  const files = new Map<string, string>()
  for (const [path, text] of generateSdk(document)) {
    const { code, errors } = await format(path, text, style)
    if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}\n${text}`)
    files.set(path, code)
  }
  return files
}
