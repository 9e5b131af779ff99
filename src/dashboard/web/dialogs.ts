// Which dialog of a page is open.
import { useCallback, useState } from 'react'

/**
 * The dialogs of a page by name. `props(name)` are those of one; `opening` is its React key, so that its fields begin
 * anew each time.
 */
export function useDialogs<Name extends string>(): {
  opening: number
  begin: (name: Name) => void
  props: (name: Name) => { opened: boolean; onClose: () => void }
} {
  const [state, set] = useState<{ open: Name | null; opening: number }>({ open: null, opening: 0 })
  const begin = useCallback((open: Name) => set(({ opening }) => ({ open, opening: opening + 1 })), [])
  return {
    opening: state.opening,
    begin,
    props: (name) => ({
      opened: state.open === name,
      // It closes itself, not one that was opened since.
      onClose: () => set((now) => (now.open === name ? { ...now, open: null } : now)),
    }),
  }
}

/** `now` as it was when the dialog opened: what it asks about does not change while somebody reads it. */
export function useValueAtOpening<T>(opened: boolean, now: T): T {
  const [stored, setStored] = useState({ opened, value: now })
  if (stored.opened !== opened) setStored({ opened, value: opened ? now : stored.value })
  return stored.value
}
