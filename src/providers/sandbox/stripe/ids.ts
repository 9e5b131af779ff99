// Ids in Stripe's format: a prefix and random letters and digits.
import { randomFillSync } from 'node:crypto'

const LETTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz01'
const pool = Buffer.alloc(16_384)
let used = pool.length

/** Creates an id: `pi_3kT...` for the prefix `pi_`. `letters`: number of random characters. Default: 24 (144 bits). */
export function stripeId(prefix: string, letters = 24): string {
  if (used + letters > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  let id = prefix
  for (let i = 0; i < letters; i++) id += LETTERS[pool[used++]! & 63]
  return id
}
