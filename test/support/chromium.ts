// Finds and launches Chromium.
import { chromium, type Browser as Chromium } from 'playwright-core'
import { findProgram } from '#start/processes.ts'
import { withFileLock } from './file-lock.ts'
import { installPackage } from './packages.ts'

/** The headless shell comes first: it needs half the processor time. */
const BROWSER_NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
const NO_BROWSER = `None of ${BROWSER_NAMES.join(', ')} is on the PATH, and CHROMIUM_PATH is not set`

/**
 * Launches Chromium, and installs it if it is missing and installation is allowed. Throws if it cannot be installed.
 */
export async function launchChromium(): Promise<Chromium> {
  return await chromium.launch({
    executablePath: await chromiumPath(),
    args: [
      // One process less per browser: a page takes about 15 % less processor time.
      '--in-process-gpu',
      // As root, for example in a container, Chromium starts only without its sandbox.
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
    ],
  })
}

async function chromiumPath(): Promise<string> {
  const configured = process.env['CHROMIUM_PATH'] ?? findProgram(BROWSER_NAMES)
  if (configured !== null) return configured
  return await withFileLock('chromium', async () => {
    const found =
      findProgram(BROWSER_NAMES) ??
      (BROWSER_NAMES.slice(0, 2).some((name) => installPackage(name, NO_BROWSER))
        ? findProgram(BROWSER_NAMES)
        : null)
    if (found === null) throw new Error(`${NO_BROWSER}. The tests in browsers need one.`)
    return found
  })
}
