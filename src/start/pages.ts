// Builds the dashboard's pages where they are missing or older than their source, beside the start: nothing waits for it.
import { spawn } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '#core/log.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILT_PAGE = join(ROOT, 'dist/dashboard/index.html')
const SOURCES = ['src/dashboard/web', 'sdk/src', 'vite.config.ts']

/** Ends with the build, if there was one to make; a failure is logged, and the dashboard then says that it has no pages. */
export async function buildStalePages(log: Log, cleanup: AsyncDisposableStack): Promise<void> {
  const built_at = await modifiedAt(BUILT_PAGE)
  const newest = Math.max(...(await Promise.all(SOURCES.map((path) => newestIn(join(ROOT, path))))))
  // An installation without the sources has only what was built.
  if (built_at >= newest) return
  log.info("the dashboard's pages are built")
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
    log.warn({ status }, "the dashboard's pages could not be built: npm run build says why")
}

async function newestIn(path: string): Promise<number> {
  const names = await readdir(path, { recursive: true }).catch(() => [])
  const times = await Promise.all([path, ...names.map((name) => join(path, name))].map(modifiedAt))
  return Math.max(...times)
}

/** 0 when it is not there. */
async function modifiedAt(path: string): Promise<number> {
  return await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  )
}
