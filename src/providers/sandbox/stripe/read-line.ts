// Checks the lines of a journal that are read from a store, where another version may have written them.
import { CHANGE_KINDS } from './due-changes.ts'
import type { JournalLine } from './journal.ts'
import { isObjectType } from './store.ts'

type NameOf<Line> = Line extends unknown ? keyof Line : never
type Fields = Record<string, unknown>

/** The names and types of fields without which a line cannot be replayed. */
const CHECKS: Record<NameOf<JournalLine>, (content: unknown) => boolean> = {
  version: (line) =>
    isFields(line) && isText(line['id']) && isNumber(line['revision']) && isObjectType(line['object']),
  event: (line) => isFields(line) && isText(line['id']) && isText(line['type']) && isNumber(line['object']),
  delivered: isText,
  answer: (line) =>
    isFields(line) &&
    isText(line['key']) &&
    isText(line['fingerprint']) &&
    isNumber(line['status']) &&
    isNumber(line['at_ms']) &&
    (isText(line['text']) ||
      (isNumber(line['object']) && Array.isArray(line['related']) && Array.isArray(line['expand']))),
  scheduled: (line) =>
    isFields(line) &&
    isText(line['id']) &&
    CHANGE_KINDS.some((kind) => kind === line['kind']) &&
    (line['due_ms'] === null || isNumber(line['due_ms'])),
  clock: (line) => isFields(line) && isNumber(line['offset_ms']),
}

/** A stored line. Throws if it cannot be replayed. */
export function readLine(line: unknown): JournalLine {
  const [entry, ...others] = isFields(line) ? Object.entries(line) : []
  if (entry === undefined || others.length > 0 || !isLineName(entry[0]) || !CHECKS[entry[0]](entry[1]))
    throw new Error(`not a line of the journal of a sandbox: ${JSON.stringify(line).slice(0, 100)}`)
  return line as JournalLine
}

function isLineName(name: string): name is NameOf<JournalLine> {
  return Object.hasOwn(CHECKS, name)
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number'
}
