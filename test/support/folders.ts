// Folders that a test makes and throws away.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// A server that was just told to end may still write there.
const REMOVING = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }

/** An empty folder in the system's place for temporary ones, which the account of an embedded server can pass through. */
export async function makeFolder(name = 'test'): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), `sluice-${name}-`))
  await chmod(path, 0o711)
  return { path, remove: () => rm(path, REMOVING) }
}
