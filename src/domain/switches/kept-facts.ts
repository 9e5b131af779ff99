// The facts about the server as witnesses keep them: each text is signed with a key of the database.
import type { Sql } from '#core/db.ts'
import { signWitness, verifyWitness } from '#core/witness-signature.ts'
import type { Witness } from '#core/witness.ts'
import { decodeFacts, encodeFacts } from './facts.ts'
import type { ServerFacts } from './server.ts'

/** The name under which witnesses keep the facts about the server of a database, and the key that signs them. */
export type WitnessKey = { name: string; key: Buffer }

/** The processes whose role may not read the key neither read nor write witnesses. */
export async function findWitnessKey(sql: Sql): Promise<WitnessKey> {
  const [row] = await sql<{ id: string; witness_key: Buffer }[]>`select id, witness_key from installation`
  return { name: `sluice:server:${row!.id}`, key: row!.witness_key }
}

/** `facts` null: the witness keeps none. `invalid`: the text without a valid signature that it keeps instead. */
export type KeptFacts = { facts: ServerFacts | null; invalid?: string }

/**
 * Stores facts at the witness (null: stores nothing) unless it keeps newer ones, and returns those that it keeps.
 * `invalid`: what it kept before without a valid signature, to be replaced. Rejects if the witness cannot be used, or
 * keeps facts that only another version can read.
 */
export async function keepFacts(
  witness: Witness,
  { name, key }: WitnessKey,
  facts: ServerFacts | null,
  invalid?: string,
): Promise<KeptFacts> {
  const signed = facts && signWitness(key, name, encodeFacts(facts))
  const kept = await witness.keepNewest(name, signed, invalid)
  if (kept === null) return { facts: null }
  const text = verifyWitness(key, name, kept)
  if (text === null) return { facts: null, invalid: kept }
  const kept_facts = decodeFacts(text)
  if (kept_facts === null) throw new Error('the facts that it keeps are those of another version of Sluice')
  return { facts: kept_facts }
}
