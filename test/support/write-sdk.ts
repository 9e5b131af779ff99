// `npm run sdk` generates the files of the SDK and of the dashboard's pages from the routes in `src/`. With
// `--check`, it writes nothing and fails if a file is out of date.
import { glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { GENERATED, sdkSources } from './sdk-sources.ts'

const ROOT = join(import.meta.dirname, '../..')
const FOLDERS = Object.values(GENERATED)

const files = await sdkSources()
const outdated = process.argv.includes('--check') ? await findOutdated() : await write()
process.stdout.write(
  outdated.length === 0
    ? `${FOLDERS.join(' and ')}: ${files.size} files\n`
    : `Out of date: ${outdated.join(', ')}. Run npm run sdk.\n`,
)
// The offline documents leave connection attempts open, which would keep the process running.
process.exit(outdated.length === 0 ? 0 : 1)

/** The generated files that are missing, differ, or are no longer generated. */
async function findOutdated(): Promise<string[]> {
  const stored = new Map<string, string>()
  for await (const path of glob(
    FOLDERS.map((folder) => `${folder}/**/*.ts`),
    { cwd: ROOT },
  ))
    stored.set(path, await readFile(join(ROOT, path), 'utf8'))
  const paths = new Set([...files.keys(), ...stored.keys()])
  return [...paths].filter((path) => files.get(path) !== stored.get(path)).toSorted()
}

async function write(): Promise<string[]> {
  for (const folder of FOLDERS) await rm(join(ROOT, folder), { recursive: true, force: true })
  for (const [path, text] of files) {
    await mkdir(dirname(join(ROOT, path)), { recursive: true })
    await writeFile(join(ROOT, path), text)
  }
  return []
}
