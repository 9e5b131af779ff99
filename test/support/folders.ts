// Temporary folders of tests.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// A server that is stopping may still write there.
const REMOVING = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }

/** Creates an empty temporary folder that other accounts may traverse, as an embedded server needs. */
export async function makeFolder(name = 'test'): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), `sluice-${name}-`))
  await chmod(path, 0o711)
  return { path, remove: () => rm(path, REMOVING) }
}
