// A lock between the processes of the test suite.
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { createHash } from 'node:crypto'

/** Runs `work` while no other process of this folder has the lock of this name. Removes the lock of a dead process. */
export async function withFileLock<T>(name: string, work: () => Promise<T>): Promise<T> {
  const folder = createHash('sha256')
    .update(import.meta.dirname)
    .digest('hex')
    .slice(0, 12)
  const path = join(tmpdir(), `sluice-${name}-${folder}.lock`)
  while (!(await acquire(path))) {
    const pid = Number(await readFile(path, 'utf8').catch(() => ''))
    // The file is empty if it was created and its pid is not written yet.
    if (pid > 0 && !isAlive(pid)) await rm(path, { force: true })
    else await sleep(50)
  }
  try {
    return await work()
  } finally {
    await rm(path, { force: true })
  }
}

async function acquire(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Whether a process with this pid runs, as any user. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
