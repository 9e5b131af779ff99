// Builds the dashboard's pages in the background if they are missing or older than their source.
import { spawn } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '#core/log.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILT_PAGE = join(ROOT, 'dist/dashboard/index.html')
const SOURCES = ['src/dashboard/web', 'sdk/src', 'vite.config.ts']

/**
 * Builds the pages if necessary, and resolves after the build. A failure is logged; the dashboard then reports that
 * its pages are missing.
 */
export async function buildStalePages(log: Log, cleanup: AsyncDisposableStack): Promise<void> {
  const built_at = await modifiedAt(BUILT_PAGE)
  const newest = Math.max(...(await Promise.all(SOURCES.map((path) => newestIn(join(ROOT, path))))))
  // Without sources, `newest` is 0: there is nothing to build.
  if (built_at >= newest) return
  log.info("building the dashboard's pages")
  const build = spawn(
    process.execPath,
    [join(ROOT, 'node_modules/vite/bin/vite.js'), 'build', '--logLevel', 'error'],
    {
      cwd: ROOT,
      stdio: 'ignore',
    },
  )
  const exited = new Promise<number | null>((resolve) => {
    build.once('error', () => resolve(null))
    build.once('exit', resolve)
  })
  cleanup.defer(async () => {
    build.kill()
    await exited
  })
  const status = await exited
  if (status !== 0 && !build.killed)
    log.warn({ status }, "the build of the dashboard's pages failed: run npm run build for the error")
}

async function newestIn(path: string): Promise<number> {
  const names = await readdir(path, { recursive: true }).catch(() => [])
  const times = await Promise.all([path, ...names.map((name) => join(path, name))].map(modifiedAt))
  return Math.max(...times)
}

/** The time of the file's last change, in Unix milliseconds; 0 if the file does not exist. */
async function modifiedAt(path: string): Promise<number> {
  return await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  )
}
