// Temporary folders of tests.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Removal is retried, because a server that is stopping may still write to the folder.
const REMOVING = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }

/** Creates an empty temporary folder that other user accounts may traverse, as an embedded server needs. */
export async function createTemporaryFolder(
  name = 'test',
): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), `sluice-${name}-`))
  await chmod(path, 0o711)
  return { path, remove: () => rm(path, REMOVING) }
}
