// What the page that is shown offers to the palette.
import { useEffect, useSyncExternalStore } from 'react'

export type PaletteAct = { title: string; run: () => void }

/** Offers acts of a page in the palette for as long as it is shown, e.g. `[{ title: 'Create key', run }]`. */
export function usePaletteActs(acts: PaletteAct[]): void {
  useEffect(() => {
    set([...offered, acts])
    return () => set(offered.filter((each) => each !== acts))
  }, [acts])
}

/** All that is offered now. */
export function useOfferedActs(): PaletteAct[] {
  return useSyncExternalStore(subscribe, () => offered).flat()
}

let offered: PaletteAct[][] = []
const listeners = new Set<() => void>()

function set(next: PaletteAct[][]): void {
  offered = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
