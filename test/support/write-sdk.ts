// `npm run sdk`: writes the generated files of the SDK, from the OpenAPI document that the routes of this folder make.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sdkSources } from './sdk-sources.ts'

const FOLDER = join(import.meta.dirname, '../../sdk/src/generated')

const files = await sdkSources()
await rm(FOLDER, { recursive: true, force: true })
for (const [path, text] of files) {
  await mkdir(dirname(join(FOLDER, path)), { recursive: true })
  await writeFile(join(FOLDER, path), text)
}
process.stdout.write(`sdk/src/generated: ${files.size} files\n`)
// The document is made by an API, whose connections are still trying.
process.exit(0)
