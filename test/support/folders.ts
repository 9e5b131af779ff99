// Temporary folders of tests.
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isAlive } from './file-lock.ts'

// Removal is retried, because a server that is stopping may still write to the folder.
const REMOVING = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }

/** Creates an empty temporary folder that other user accounts may traverse, as an embedded server needs. */
export async function createTemporaryFolder(
  name = 'test',
): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), `sluice-${name}-${process.pid}-`))
  await chmod(path, 0o711)
  return { path, remove: () => rm(path, REMOVING) }
}

/** Removes the temporary folders of killed processes: in memory they would stay until the machine restarts. */
export async function removeAbandonedFolders(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, pid] = /^sluice-[a-z]+-(\d+)-\w{6}$/.exec(name) ?? []
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(tmpdir(), name), REMOVING)
  }
}
