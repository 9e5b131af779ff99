// `npm run check`: format, lint, types, dead code, the generated SDK, and the tests nearest to the change. Prints each
// step and its time.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { changedFiles, nearestTests } from './nearest-tests.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Scripts of package.json that change no file. */
const CHECKS = ['format:check', 'lint', 'typecheck', 'deadcode']
/** Six test files take about a minute. `npm test` runs all. */
const MAX_TEST_FILES = 6

const began_at = performance.now()
const changed = await changedFiles(ROOT)
console.log(
  changed.length === 0 ? 'Nothing has changed since origin/main.' : `Changed: ${changed.length} files`,
)
console.log(`Running ${CHECKS.join(', ')}, sdk --check`)
const results = await Promise.all([
  ...CHECKS.map((name) => report(name, 'npm', ['run', '-s', name])),
  report('sdk', 'npm', ['run', '-s', 'sdk', '--', '--check']),
])

const { near, count, note } = await nearestTests(ROOT, changed, MAX_TEST_FILES)
if (near.length > 0) {
  console.log(`Running the ${near.length} test files nearest to the change, of ${count}: ${near.join(', ')}`)
  results.push(await report('tests', 'npx', ['vitest', 'run', '--reporter=dot', ...near]))
}
if (note !== null) console.log(note)
const failed = results.filter((ok) => !ok).length
console.log(`\n${failed === 0 ? 'All good' : `${failed} failed`} after ${secondsSince(began_at)}.`)
console.log('npm test runs all tests, .ci/run all checks.')
process.exitCode = failed === 0 ? 0 : 1

/**
 * Runs a command and prints one line about the command, and the command's output if it fails. Returns whether the
 * command succeeded.
 */
async function report(name: string, command: string, args: string[]): Promise<boolean> {
  const started_at = performance.now()
  const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ok = await new Promise<boolean>((resolve) => child.once('close', (code) => resolve(code === 0)))
  console.log(`  ${ok ? 'ok    ' : 'FAILED'}  ${name.padEnd(12)} ${secondsSince(started_at)}`)
  if (!ok) console.log(output.trimEnd())
  return ok
}

function secondsSince(start: number): string {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`
}
