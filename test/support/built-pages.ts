// Builds the pages of the dashboard as `npm run build` does.
import { execFile } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withFileLock } from './file-lock.ts'

const ROOT = join(import.meta.dirname, '../..')
/** The sources of the pages. */
const SOURCES = ['src/dashboard/web', 'sdk/src', 'vite.config.ts', 'package-lock.json']

/** Builds the pages unless the built pages are newer than all their sources. */
export async function buildPages(): Promise<void> {
  if (await isFresh()) return
  await withFileLock('pages', async () => {
    if (await isFresh()) return
    await promisify(execFile)(
      process.execPath,
      ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'warn'],
      {
        cwd: ROOT,
      },
    )
  })
}

async function isFresh(): Promise<boolean> {
  const built = await stat(join(ROOT, 'dist/dashboard/index.html')).catch(() => undefined)
  if (built === undefined) return false
  const times = await Promise.all(SOURCES.map((path) => newest(join(ROOT, path))))
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
