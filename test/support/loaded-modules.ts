// Loaded with `--import` before a process starts: when the process ends, the URLs of the files that it loaded are in
// the file that LOADED_MODULES names, as JSON.
import { registerHooks } from 'node:module'
import { writeFileSync } from 'node:fs'

const loaded = new Set<string>()
registerHooks({
  load(url, context, nextLoad) {
    if (url.startsWith('file:')) loaded.add(url)
    return nextLoad(url, context)
  },
})
process.on('exit', () => writeFileSync(process.env['LOADED_MODULES']!, JSON.stringify([...loaded])))
