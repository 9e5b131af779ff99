// The pages of the dashboard, built as `npm run build` does.
import { execFile } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withFileLock } from './file-lock.ts'

const ROOT = join(import.meta.dirname, '../..')
/** What the pages are made of. */
const SOURCES = ['src/dashboard/web', 'sdk/src', 'vite.config.ts', 'package-lock.json']

/** Builds them unless what is built is newer than all that they are made of. */
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

/** When anything of a file or a folder was changed last; of a folder, also that something was taken away. */
async function newest(path: string): Promise<number> {
  const found = await stat(path)
  if (!found.isDirectory()) return found.mtimeMs
  const times = await Promise.all((await readdir(path)).map((name) => newest(join(path, name))))
  return Math.max(found.mtimeMs, ...times)
}
