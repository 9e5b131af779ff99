// What the sections of the page share: the latest of a kind, and times and metadata in words.
import { button, cell, type Cell } from '../shared/html.ts'
import type { Collection } from './store.ts'

export const SHOWN = 25

/** Newest first. */
export function latest<T>({ byId, ids }: Collection<T>): T[] {
  return ids
    .slice(-SHOWN)
    .toReversed()
    .map((id) => byId.get(id)!)
}

/** What a button says, and the word that it sends. */
export type StatusButton = [value: string, label: string]

export function buttons(name: string, id: string, moves: StatusButton[] = []): Cell {
  return cell(moves.map(([value, label]) => button(name, label, { id, value })).join(' '))
}

export function metadataText(metadata: Record<string, string>): string {
  return Object.entries(metadata)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

export function time(unix_s: number): string {
  return new Date(unix_s * 1000).toISOString()
}
