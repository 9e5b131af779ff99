// What the server tells by itself, as it happens.
import { useEffect, useRef, useState } from 'react'

/** Whether what is shown is told as it happens, or the connection is being made again. */
export type LiveState = 'connecting' | 'live' | 'away'

/**
 * Listens to server-sent events of `url` (`/api/ops/stream`) while the page is there: `hear` gets the name of each and
 * its JSON. The connection is made again after 1 to 30 s; a page that is not seen has none.
 */
export function useLive(
  url: string,
  hear: (name: string, data: unknown) => void,
  { names = ['message'], enabled = true }: { names?: string[]; enabled?: boolean } = {},
): LiveState {
  const [state, setState] = useState<LiveState>('connecting')
  const latest = useRef(hear)
  useEffect(() => {
    latest.current = hear
  })
  const listened = names.join(' ')
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
        setState('away')
        timer = setTimeout(connect, Math.min(30_000, 1000 * 2 ** failures++))
      })
      for (const name of listened.split(' '))
        source.addEventListener(name, (event: MessageEvent<string>) => {
          latest.current(name, parsed(event.data))
        })
    }
    const seen = () => (document.hidden ? close() : connect())
    seen()
    document.addEventListener('visibilitychange', seen)
    return () => {
      document.removeEventListener('visibilitychange', seen)
      close()
    }
  }, [url, listened, enabled])
  return state
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
