// Server-sent events.
import { useEffect, useRef, useState } from 'react'

/** The state of the connection: being opened for the first time, open, or being opened again after an error. */
export type ConnectionState = 'connecting' | 'live' | 'reconnecting'

/**
 * Listens to the server-sent events of `url` (`/api/ops/stream`). `onEvent` gets the name and the parsed JSON of each
 * event. Reconnects after 1 to 30 s. A hidden page has no connection.
 */
export function useServerEvents(
  url: string,
  onEvent: (name: string, data: unknown) => void,
  { names = ['message'], enabled = true }: { names?: string[]; enabled?: boolean } = {},
): ConnectionState {
  const [state, setState] = useState<ConnectionState>('connecting')
  const latest = useRef(onEvent)
  useEffect(() => {
    latest.current = onEvent
  })
  const event_names = names.join(' ')
  useEffect(() => {
    if (!enabled) return undefined
    let source: EventSource | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0

    function close(): void {
      clearTimeout(timer)
      source?.close()
      source = undefined
    }
    function connect(): void {
      close()
      source = new EventSource(url)
      source.addEventListener('open', () => {
        failures = 0
        setState('live')
      })
      source.addEventListener('error', () => {
        close()
        setState('reconnecting')
        timer = setTimeout(connect, Math.min(30_000, 1000 * 2 ** failures++))
      })
      for (const name of event_names.split(' '))
        source.addEventListener(name, (event: MessageEvent<string>) => {
          latest.current(name, parseData(event.data))
        })
    }
    const connectIfVisible = () => (document.hidden ? close() : connect())
    connectIfVisible()
    document.addEventListener('visibilitychange', connectIfVisible)
    return () => {
      document.removeEventListener('visibilitychange', connectIfVisible)
      close()
    }
  }, [url, event_names, enabled])
  return state
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
