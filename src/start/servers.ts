// Keeps an embedded server running: restarts it at the same address after it dies.
import { setTimeout as sleep } from 'node:timers/promises'
import { createRestartDelays } from './restart-delays.ts'

type EmbeddedServer = {
  /** Resolves when the current server exits, with the signal or the exit code. */
  exited: () => Promise<string>
  /** Restarts the server on the same port. */
  restart: () => Promise<void>
  stop: () => Promise<void>
}

/** Watches a running server. `end` stops it for good. `notify` receives lines for the terminal. */
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
    const how = await server.exited()
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
      return await restartServer(`${name} could not be restarted (${reason}).`)
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
