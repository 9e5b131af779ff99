// `npm run sdk` generates the files of the SDK and of the dashboard's pages from the routes in this folder.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { GENERATED, sdkSources } from './sdk-sources.ts'

const ROOT = join(import.meta.dirname, '../..')

const files = await sdkSources()
for (const folder of Object.values(GENERATED)) await rm(join(ROOT, folder), { recursive: true, force: true })
for (const [path, text] of files) {
  await mkdir(dirname(join(ROOT, path)), { recursive: true })
  await writeFile(join(ROOT, path), text)
}
process.stdout.write(`${Object.values(GENERATED).join(' and ')}: ${files.size} files\n`)
// The offline documents leave connection attempts open, which would keep the process running.
process.exit(0)
