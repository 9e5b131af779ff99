// Programs that the tests need and that come from the system's packages.
import { execFileSync } from 'node:child_process'
import { findProgram } from '#start/processes.ts'

/** Where it is allowed to and can: a fresh container of a build server. Returns whether it did. */
export function installPackage(name: string, why: string): boolean {
  const installer = findProgram(['apt-get'])
  if (process.getuid?.() !== 0 || installer === null) return false
  console.error(`${why}: installing ${name} with apt-get.`)
  try {
    for (const args of [['update'], ['install', '-y', '--no-install-recommends', name]]) {
      execFileSync(installer, args, {
        stdio: ['ignore', 'ignore', 'inherit'],
        timeout: 300_000,
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      })
    }
    return true
  } catch {
    return false
  }
}
