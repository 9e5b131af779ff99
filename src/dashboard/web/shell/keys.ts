// Keyboard shortcuts.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { moveRow } from '../kit/row-focus.ts'
import { OPERATOR_PAGES, TENANT_PAGES } from '../nav.ts'
import { useSession } from '../session.tsx'

/** The time between `g` and the letter of a page. */
const SEQUENCE_TIMEOUT_MS = 1_200

/** Handles `/`, `g` and a letter, `j`, `k`, `?` and Ctrl-K. Shortcuts are off in text fields and dialogs. */
export function useKeys(handlers: { openPalette: () => void; openHelp: () => void }): void {
  const navigate = useNavigate()
  const { is_operator } = useSession()
  const latest = useRef(handlers)
  useEffect(() => {
    latest.current = handlers
  })
  useEffect(() => {
    let g_at = -Infinity

    function handle(event: KeyboardEvent): boolean {
      const { openPalette, openHelp } = latest.current
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !inDialog()) {
        openPalette()
        return true
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || inDialog()) return false
      const after_g = event.timeStamp - g_at < SEQUENCE_TIMEOUT_MS
      g_at = -Infinity
      if (after_g) {
        const pages = is_operator ? [...TENANT_PAGES, ...OPERATOR_PAGES] : TENANT_PAGES
        const page = pages.find(({ key }) => key === event.key)
        if (page !== undefined) void navigate({ to: page.to })
        return page !== undefined
      }
      if (event.key === 'g') g_at = event.timeStamp
      if (event.key === '/') {
        const search = document.querySelector<HTMLElement>('main [data-search], main input[type=search]')
        if (search === null) openPalette()
        else search.focus()
        return true
      }
      if (event.key === '?') {
        openHelp()
        return true
      }
      return (event.key === 'j' && moveRow(1)) || (event.key === 'k' && moveRow(-1))
    }

    const listen = (event: KeyboardEvent) => {
      if (!event.defaultPrevented && handle(event)) event.preventDefault()
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [navigate, is_operator])
}

const inDialog = () => document.querySelector('[role=dialog]') !== null

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  )
}
