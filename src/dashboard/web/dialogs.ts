// The dialogs of a page.
import { useCallback, useState } from 'react'

/**
 * The dialogs of a page by name. At most one is open. `props(name)` are the properties of a dialog. `opening` is the
 * number of openings. Used as the React key of the dialogs, it resets their fields.
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
      // Closes this dialog, not a dialog that was opened since then.
      onClose: () => set((now) => (now.open === name ? { ...now, open: null } : now)),
    }),
  }
}

/** Returns the value that `now` had when the dialog opened, so that the text of an open dialog does not change. */
export function useValueAtOpening<T>(opened: boolean, now: T): T {
  const [stored, setStored] = useState({ opened, value: now })
  if (stored.opened !== opened) setStored({ opened, value: opened ? now : stored.value })
  return stored.value
}
