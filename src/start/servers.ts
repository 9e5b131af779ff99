// Keeps an embedded server running: one that dies is started again at the same address, as parts are.
import { setTimeout as sleep } from 'node:timers/promises'
import { createRestartDelays } from './pauses.ts'

type EmbeddedServer = {
  /** Resolves when the server that runs now has ended, with the signal or the exit code. */
  ended: () => Promise<string>
  /** Starts it again on the same port. */
  restart: () => Promise<void>
  stop: () => Promise<void>
}

/** Watches a server that runs. `end` stops it; it is not started again then. `tell` hears lines for people. */
export function superviseServer(
  name: string,
  server: EmbeddedServer,
  notify: (line: string) => void,
): { end: () => Promise<void> } {
  const delayAfter = createRestartDelays(notify)
  const ending = new AbortController()
  const { signal } = ending
  let started_at = performance.now()
  let restarting = Promise.resolve()

  async function watch(): Promise<void> {
    const how = await server.ended()
    restarting = restartServer(`${name} ended (${how}).`)
  }

  async function restartServer(what: string): Promise<void> {
    if (signal.aborted) return
    await sleep(delayAfter(what, performance.now() - started_at), undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    started_at = performance.now()
    try {
      await server.restart()
    } catch (error) {
      const [reason] = (error instanceof Error ? error.message : String(error)).split('\n')
      return await restartServer(`${name} did not come back (${reason}).`)
    }
    notify(`${name} is back.`)
    void watch()
  }

  void watch()
  return {
    async end() {
      ending.abort()
      await restarting
      await server.stop()
    },
  }
}
