// The facts about the server as witnesses keep them. Each text is signed with a key that is derived from
// ENCRYPTION_KEY.
import type { Sql } from '#core/db.ts'
import { withTimeout } from '#core/timeout.ts'
import { signWitness, unverifiedText, verifyWitness, witnessKeys } from '#core/witness-signature.ts'
import type { Witness } from '#core/witness.ts'
import { decodeFacts, encodeFacts } from './facts.ts'
import type { ServerFacts } from './server.ts'

/** How long a witness may take to answer: checks of the server wait for it. */
const ANSWER_TIMEOUT_MS = 2_000

/** A witness, and how texts for operators and metrics name it. */
export type NamedWitness = { called: 'Redis' | 'WITNESS_URL'; witness: Witness }

/** Why a witness whose text has no valid signature cannot be used. */
export const NO_SIGNATURE = 'its text has no valid signature'

/** The name under which witnesses keep the facts about the server of the database. */
export async function findWitnessName(sql: Sql): Promise<string> {
  const [installation] = await sql<{ id: string }[]>`select id from installation`
  return `sluice:server:${installation!.id}`
}

/**
 * A witness, and what is kept there: the name of the facts, and the keys of ENCRYPTION_KEY from which those that sign
 * them are derived.
 */
export type WitnessEntry = { witness: Witness; name: string; encryption_keys: string }

/** Finds the keys of accepted requests. `encryptionKeys`: the present keys of ENCRYPTION_KEY. */
export function acceptedKeysOf(sql: Sql, encryptionKeys: () => string): () => Promise<Buffer[]> {
  let name: string | undefined
  return async () => witnessKeys(encryptionKeys(), (name ??= await findWitnessName(sql)))
}

/** The facts that a text without a valid signature claims; null if it claims none. */
export function claimedFacts(invalid: string): ServerFacts | null {
  const text = unverifiedText(invalid)
  return text === null ? null : decodeFacts(text)
}

/** `facts` null: the witness keeps none. `invalid`: the text without a valid signature that it keeps instead. */
export type KeptFacts = { facts: ServerFacts | null; invalid?: string }

/**
 * Stores facts at the witness (null: stores nothing) unless it keeps newer ones, and returns those that it keeps.
 * `invalid`: what it kept before without a valid signature, to be replaced. Rejects if the witness cannot be used, does
 * not answer within 2 s, or keeps facts that only another version can read.
 */
export async function keepFacts(
  { witness, name, encryption_keys }: WitnessEntry,
  facts: ServerFacts | null,
  invalid?: string,
): Promise<KeptFacts> {
  const keys = witnessKeys(encryption_keys, name)
  const signed = facts && signWitness(keys, name, encodeFacts(facts))
  const kept = await withTimeout(witness.keepNewest(name, signed, invalid), ANSWER_TIMEOUT_MS)
  if (kept === null) return { facts: null }
  const text = verifyWitness(keys, name, kept)
  if (text === null) return { facts: null, invalid: kept }
  const kept_facts = decodeFacts(text)
  if (kept_facts === null) throw new Error('the facts that it keeps are those of another version of Sluice')
  return { facts: kept_facts }
}

/** Why `keepFacts` has rejected. */
export function witnessProblem(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
