// The focus in a table: keys move it from row to row, and Back returns it to the row that was opened.
import { useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, type KeyboardEvent } from 'react'

/** By the entry of the history: the row that was opened from there. */
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

/** Within the table the arrows go from row to row, as `j` and `k` do everywhere. */
export function moveByKey(event: KeyboardEvent): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  if (moveRow(event.key === 'ArrowDown' ? 1 : -1)) event.preventDefault()
}

/** Moves the focus to the next row of the page, or the one before; returns whether there is one. */
export function moveRow(by: 1 | -1): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')]
  const at = rows.findIndex((row) => row.closest('tr')?.contains(document.activeElement))
  const row = rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : at + by]
  row?.focus()
  return row !== undefined
}
