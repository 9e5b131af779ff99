// Helpers of the page sections.
import type { Collection } from '#providers/sandbox/stripe/store.ts'
import { button, cell, type Cell } from '../shared/html.ts'

export const PAGE_ROWS = 25

/** The newest objects of a collection, newest first. */
export function latest<T>({ byId, ids }: Collection<T>): T[] {
  return ids
    .slice(-PAGE_ROWS)
    .toReversed()
    .map((id) => byId.get(id)!)
}

/** A button: the status that it sends, and its label. */
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
