// The version in package.json, and the commit of the sources.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { ROOT } from './root.ts'

// npm writes `gitHead` into a published package. An image can do the same with `npm pkg set gitHead=...`.
const manifest = z
  .object({ version: z.string(), gitHead: z.string().optional() })
  .parse(JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')))

export const { version: VERSION } = manifest
/** The commit of the sources: `gitHead` of package.json, or the commit of the checkout; `unknown` without both. */
export const COMMIT = manifest.gitHead ?? checkedOutCommit() ?? 'unknown'

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
