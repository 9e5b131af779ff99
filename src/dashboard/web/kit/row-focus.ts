// Focus in tables: keys move it between rows, and Back restores it to the opened row.
import { useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, type KeyboardEvent } from 'react'

/** For each history entry, the row that was opened from its page. */
const opened_rows = new Map<string, string>()

export function useOpenedRow(is_read: boolean) {
  const entry = useRouterState({ select: ({ location }) => location.state.__TSR_key })
  const body = useRef<HTMLTableSectionElement>(null)
  useEffect(() => {
    const key = entry === undefined || !is_read ? undefined : opened_rows.get(entry)
    const is_free = document.activeElement?.matches('body, h1') ?? true
    if (key === undefined || !is_free) return
    body.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(key)}"]`)?.focus()
  }, [entry, is_read])
  return {
    body,
    rememberRow: (key: string) => {
      if (entry !== undefined) opened_rows.set(entry, key)
    },
  }
}

/** Arrow keys move between rows, like `j` and `k`. */
export function moveByKey(event: KeyboardEvent): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  if (moveRow(event.key === 'ArrowDown' ? 1 : -1)) event.preventDefault()
}

/** Moves the focus to the next or the previous row. False: there is none. */
export function moveRow(by: 1 | -1): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')]
  const at = rows.findIndex((row) => row.closest('tr')?.contains(document.activeElement))
  const row = rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : at + by]
  row?.focus()
  return row !== undefined
}
