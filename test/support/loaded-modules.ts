// Loaded with `--import` before a process starts: when the process ends, it prints the URLs of the files that it loaded.
import { registerHooks } from 'node:module'
import { writeSync } from 'node:fs'

/** The beginning of the line with the URLs, as JSON. */
const MARK = 'loaded modules: '

const loaded = new Set<string>()
registerHooks({
  load(url, context, nextLoad) {
    if (url.startsWith('file:')) loaded.add(url)
    return nextLoad(url, context)
  },
})
process.on('exit', () => void writeSync(1, `${MARK}${JSON.stringify([...loaded])}\n`))
