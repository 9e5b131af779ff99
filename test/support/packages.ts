// Installs programs that the tests need from the system's packages.
import { execFileSync } from 'node:child_process'
import { findProgram } from '#start/processes.ts'

/**
 * Installs a package with apt-get if the user is root, as in a container of a build server. Returns whether the
 * installation succeeded.
 */
export function installPackage(name: string, reason: string): boolean {
  const installer = findProgram(['apt-get'])
  if (process.getuid?.() !== 0 || installer === null) return false
  console.error(`${reason}: installing ${name} with apt-get.`)
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
