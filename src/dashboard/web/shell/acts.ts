// Acts that the current page adds to the palette.
import { useEffect, useSyncExternalStore } from 'react'

export type PaletteAct = { title: string; run: () => void }

/** Adds acts to the palette while the page is mounted, e.g. `[{ title: 'Create key', run }]`. */
export function usePaletteActs(acts: PaletteAct[]): void {
  useEffect(() => {
    set([...offered, acts])
    return () => set(offered.filter((each) => each !== acts))
  }, [acts])
}

/** All acts in the palette. */
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
