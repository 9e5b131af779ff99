// The version in package.json, and the commit of the sources.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { ROOT } from './root.ts'

// npm writes `gitHead` into a published package. An image can do the same with `npm pkg set gitHead=...`.
const manifest = z
  .object({ version: z.string(), gitHead: z.string().optional() })
  .parse(JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')))

export const { version: VERSION } = manifest
/** The commit of the folder: `gitHead` of package.json, or the commit of the checkout; `unknown` without both. */
const FOLDER_COMMIT = manifest.gitHead ?? checkedOutCommit() ?? 'unknown'

/** What a build of the processes writes beside them: `vite.server.config.ts`. `migrations`: a hash of all of them. */
const builtSchema = z.object({ commit: z.string(), migrations: z.string() })
type Built = z.output<typeof builtSchema>
export const BUILD_FILE = 'built.json'

/** What a build of this folder would write now. */
export const FOLDER: Built = {
  commit: FOLDER_COMMIT,
  migrations: createHash('sha256')
    .update(readFileSync(new URL('migrations/SHA256SUMS', ROOT)))
    .digest('hex'),
}

const built = readBuilt()
/** The commit of the sources that run. */
export const COMMIT = built?.commit ?? FOLDER_COMMIT

/**
 * Why what runs may not be what the folder contains; undefined if it is. `is_other`: it cannot run, because it does not
 * know the migrations of the folder.
 */
export function problemOfBuild(): { is_other: boolean; text: string } | undefined {
  if (built === undefined || (built.commit === FOLDER.commit && built.migrations === FOLDER.migrations))
    return undefined
  const text = `dist/server was built from ${built.commit}, and the folder has ${FOLDER.commit}. Run: npm run build`
  return { is_other: built.migrations !== FOLDER.migrations, text }
}

/** Undefined if the sources run. */
function readBuilt(): Built | undefined {
  try {
    return builtSchema.parse(JSON.parse(readFileSync(new URL(BUILD_FILE, import.meta.url), 'utf8')))
  } catch {
    return undefined
  }
}

function checkedOutCommit(): string | undefined {
  const read = (path: string) => readFileSync(new URL(`.git/${path}`, ROOT), 'utf8').trim()
  try {
    const head = read('HEAD')
    const ref = /^ref: (.+)$/.exec(head)?.[1]
    if (ref === undefined) return head
    try {
      return read(ref)
    } catch {
      return read('packed-refs')
        .split('\n')
        .find((line) => line.endsWith(` ${ref}`))
        ?.split(' ')[0]
    }
  } catch {
    return undefined
  }
}
