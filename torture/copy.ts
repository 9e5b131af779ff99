// Copies the sources and patches them: into a version without a protection, or into the next version.
import { cp, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTemporaryFolder } from '#test/folders.ts'

export type Patch = { file: string; from: string; to: string }

/** Copies the sources into a new folder and patches them. Throws unless each patch matches exactly once. */
export async function patchedCopy(
  root: string,
  patches: Patch[],
): Promise<{ path: string; remove: () => Promise<void> }> {
  const { path, remove } = await createTemporaryFolder('copy')
  for (const path_name of ['src', 'migrations', 'docs/guides', 'package.json'])
    await cp(join(root, path_name), join(path, path_name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(path, 'node_modules'))
  for (const { file, from, to } of patches) {
    const text = await readFile(join(path, file), 'utf8')
    if (text.split(from).length !== 2) throw new Error(`${file} does not contain this exactly once: ${from}`)
    await writeFile(
      join(path, file),
      text.replace(from, () => to),
    )
  }
  return { path, remove }
}
