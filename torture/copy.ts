// A copy of the sources with patches: without a protection, or as another version would have them.
import { cp, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '#test/folders.ts'

export type Patch = { file: string; from: string; to: string }

/** Copies what runs into a new folder and patches it there. Throws when a patch finds no place, or more than one. */
export async function patchedCopy(
  root: string,
  patches: Patch[],
): Promise<{ path: string; remove: () => Promise<void> }> {
  const { path, remove } = await makeFolder('copy')
  for (const part of ['src', 'migrations', 'docs/guides', 'package.json'])
    await cp(join(root, part), join(path, part), { recursive: true })
  await symlink(join(root, 'node_modules'), join(path, 'node_modules'))
  for (const { file, from, to } of patches) {
    const text = await readFile(join(path, file), 'utf8')
    if (text.split(from).length !== 2) throw new Error(`${file} does not hold this once: ${from}`)
    await writeFile(
      join(path, file),
      text.replace(from, () => to),
    )
  }
  return { path, remove }
}
