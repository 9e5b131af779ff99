// Converts the lines of an engine's journal to records of its sandbox.
import type { NewRecord, SandboxRecord } from '#domain/sandboxes/records.ts'
import { rootOf } from '#providers/sandbox/stripe/families.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { findObject } from '#providers/sandbox/stripe/store.ts'
import type { Version } from '#providers/sandbox/stripe/versions.ts'
import type { HeldEngine } from './memory.ts'

/**
 * The records of these lines, in order. Of several lines with one key, only the last counts. Remembers the versions, to
 * which later lines of other processes may refer.
 */
export function recordsOf(held: HeldEngine, lines: JournalLine[]): NewRecord[] {
  const records = new Map<string, NewRecord>()
  for (const line of lines) {
    if ('version' in line) held.versions.set(line.version.revision, line.version)
    const key = keyOf(held, line)
    if (key === null) continue
    const name = `${key.kind} ${key.key}`
    records.delete(name)
    records.set(name, { ...key, line: JSON.stringify(line) })
  }
  return [...records.values()]
}

/** Null: the row of the sandbox has it. Nothing is delivered: the events become notifications at once. */
function keyOf({ engine, versions }: HeldEngine, line: JournalLine): SandboxRecord | null {
  const about = (version: Version | undefined) => ({
    object: version?.id ?? null,
    root: version === undefined ? null : rootOf(version),
  })
  if ('version' in line)
    return { kind: 'version', key: String(line.version.revision), ...about(line.version) }
  if ('event' in line) return { kind: 'event', key: line.event.id, ...about(versions.get(line.event.object)) }
  if ('answer' in line) {
    const { answer } = line
    const version = 'object' in answer ? versions.get(answer.object) : undefined
    return { kind: 'answer', key: answer.key, ...about(version) }
  }
  if ('scheduled' in line) {
    const { kind, id } = line.scheduled
    return { kind: 'change', key: `${kind} ${id}`, ...about(findObject(engine.store, id)) }
  }
  return null
}
