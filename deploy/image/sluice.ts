// The entrypoint of the image: `sluice NAME [ARGUMENTS]` runs a script of package.json, without npm and a shell.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** A script that runs one of our files: the flags of Node, and the file. */
const SCRIPT = /\bexec node ((?:--\S+ )*)((?:src|dist)\/\S+)$/

/** The scripts whose files are in the image: name to the arguments of Node. */
function runnableScripts(): Map<string, string[]> {
  const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
    scripts: Record<string, string>
  }
  const found = new Map<string, string[]>()
  for (const [name, script] of Object.entries(scripts)) {
    const [, flags = '', file] = SCRIPT.exec(script) ?? []
    if (file !== undefined && existsSync(ROOT + file))
      found.set(name, [...flags.split(' ').filter(Boolean), ROOT + file])
  }
  return found
}

const [name = '--help', ...rest] = process.argv.slice(2)
const scripts = runnableScripts()
const script = scripts.get(name)
if (script !== undefined) {
  // The process is replaced, so that signals reach the program and no parent uses memory.
  const preload = `--import=${ROOT}deploy/image/signals.ts`
  process.execve!(process.execPath, [process.execPath, preload, ...script, ...rest], process.env)
}
const usage = `sluice NAME [ARGUMENTS]\n\nNames, each with --help: ${[...scripts.keys()].join(', ')}\n`
if (name === '--help' || name === '-h') process.stdout.write(usage)
else {
  process.stderr.write(`There is no "${name}". ${usage}`)
  process.exitCode = 1
}
