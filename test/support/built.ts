// Builds the pages of the dashboard, and the processes of production, as `npm run build` does.
import { execFile } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { BUILD_FILE } from '#core/version.ts'
import { PROCESSES } from '../../vite.server.config.ts'
import { withFileLock } from './file-lock.ts'

const ROOT = join(import.meta.dirname, '../..')
/** `result`: the file that a build writes last. */
type Build = { config: string; result: string; sources: string[] }

const PAGES: Build = {
  config: 'vite.config.ts',
  result: 'dist/dashboard/index.html',
  sources: ['src/dashboard/web', 'sdk/src', 'package-lock.json'],
}
const SERVER: Build = {
  config: 'vite.server.config.ts',
  result: `dist/server/${BUILD_FILE}`,
  sources: ['src', 'migrations', 'package.json', 'package-lock.json'],
}

/** Builds the pages unless the built pages are newer than all their sources. */
export async function buildPages(): Promise<void> {
  await build(PAGES)
}

let building: Promise<void> | undefined

/**
 * The file that production runs for this file of the sources: `dist/server/api.js` for `src/api/main.ts`. Builds it if
 * a source is newer. Other files are returned unchanged.
 */
export async function builtFile(file: string): Promise<string> {
  const process_name = Object.entries(PROCESSES).find(([, source]) => source === file)?.[0]
  if (process_name === undefined) return file
  await (building ??= build(SERVER))
  return `dist/server/${process_name}.js`
}

async function build(what: Build): Promise<void> {
  if (await isFresh(what)) return
  await withFileLock(what.config, async () => {
    if (await isFresh(what)) return
    await promisify(execFile)(
      process.execPath,
      ['node_modules/vite/bin/vite.js', 'build', '--config', what.config, '--logLevel', 'warn'],
      { cwd: ROOT },
    )
  })
}

async function isFresh({ config, result, sources }: Build): Promise<boolean> {
  const built = await stat(join(ROOT, result)).catch(() => undefined)
  if (built === undefined) return false
  const times = await Promise.all([config, ...sources].map((path) => newest(join(ROOT, path))))
  return Math.max(...times) < built.mtimeMs
}

/**
 * The last modification time of a file, or of a folder with everything in it. The removal of a file counts as a
 * modification.
 */
async function newest(path: string): Promise<number> {
  const found = await stat(path)
  if (!found.isDirectory()) return found.mtimeMs
  const times = await Promise.all((await readdir(path)).map((name) => newest(join(path, name))))
  return Math.max(found.mtimeMs, ...times)
}
