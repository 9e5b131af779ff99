// Keeps an embedded server running: one that dies is started again at the same address, as parts are.
import { setTimeout as sleep } from 'node:timers/promises'
import { createPauses } from './pauses.ts'

type EmbeddedServer = {
  /** Resolves when the server that runs now has ended, with the signal or the exit code. */
  ended: () => Promise<string>
  /** Starts it again on the same port. */
  restart: () => Promise<void>
  stop: () => Promise<void>
}

/** Watches a server that runs. `end` stops it; it is not started again then. `tell` hears lines for people. */
export function keepRunning(
  name: string,
  server: EmbeddedServer,
  tell: (line: string) => void,
): { end: () => Promise<void> } {
  const pauseAfter = createPauses(tell)
  const ending = new AbortController()
  const { signal } = ending
  let began = performance.now()
  let bringing_back = Promise.resolve()

  async function watch(): Promise<void> {
    const how = await server.ended()
    bringing_back = bringBack(`${name} ended (${how}).`)
  }

  async function bringBack(what: string): Promise<void> {
    if (signal.aborted) return
    await sleep(pauseAfter(what, performance.now() - began), undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    began = performance.now()
    try {
      await server.restart()
    } catch (error) {
      const [why] = (error instanceof Error ? error.message : String(error)).split('\n')
      return await bringBack(`${name} did not come back (${why}).`)
    }
    tell(`${name} is back.`)
    void watch()
  }

  void watch()
  return {
    async end() {
      ending.abort()
      await bringing_back
      await server.stop()
    },
  }
}
