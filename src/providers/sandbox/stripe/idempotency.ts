// Idempotency keys: the first answer of a key is replayed for 24 hours.
import { hash } from 'node:crypto'
import { keyInUse, keyReused } from './errors.ts'
import type { ResponseSnapshot } from './expand.ts'

const RETENTION_MS = 24 * 60 * 60 * 1000

/** `content`: the body, or a snapshot of the object that the body shows. */
export type Answer = { status: number; content: ResponseSnapshot | string }

export type StoredAnswer = Answer & { fingerprint: string; at_ms: number; request_id: string }

export type Idempotency = {
  answers: Map<string, StoredAnswer>
  /** Keys of requests in progress, with their fingerprints. Only a host that answers late has such requests. */
  inFlight: Map<string, string>
}

export function emptyIdempotency(): Idempotency {
  return { answers: new Map(), inFlight: new Map() }
}

/** A hash of the path and the parameters, independent of their order. */
export function fingerprintOf(path: string, body: string): string {
  return hash('sha1', `${path}\n${body.split('&').sort().join('&')}`, 'base64')
}

/**
 * The stored answer of the key, or null. Throws a 409 if a request with the key is in progress, and a 400 if the key
 * was used with other parameters.
 */
export function findAnswer(
  idempotency: Idempotency,
  key: string,
  fingerprint: string,
  now_ms: number,
): StoredAnswer | null {
  const in_progress = idempotency.inFlight.get(key)
  if (in_progress !== undefined) throw in_progress === fingerprint ? keyInUse(key) : keyReused(key)
  const stored = idempotency.answers.get(key)
  if (!stored || stored.at_ms + RETENTION_MS <= now_ms) return null
  if (stored.fingerprint !== fingerprint) throw keyReused(key)
  return stored
}

/** Stores an answer, without writing it to the journal, and removes answers that are older than 24 hours. */
export function storeAnswer(idempotency: Idempotency, key: string, answer: StoredAnswer): void {
  const { answers } = idempotency
  answers.delete(key)
  answers.set(key, answer)
  for (const [old, { at_ms }] of answers) {
    if (at_ms + RETENTION_MS > answer.at_ms) break
    answers.delete(old)
  }
}
