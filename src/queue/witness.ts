// Texts that outlive the database: only a greater text replaces one.
import type { RedisClient } from './connection.ts'

/**
 * Stores the text unless a greater one, other than the second argument, is stored. Returns the one that is stored: at
 * most its first 10,000 bytes, and for a value that is no text an empty one.
 */
const KEEP_NEWEST = `
local kind = redis.call('type', KEYS[1]).ok
local stored = kind ~= 'none' and (kind == 'string' and redis.call('getrange', KEYS[1], 0, 9999) or '')
if ARGV[1] ~= '' and (not stored or ARGV[1] > stored or stored == ARGV[2]) then
  redis.call('set', KEYS[1], ARGV[1])
  return ARGV[1]
end
return stored`

/**
 * See `Witness`. The texts are ASCII. One that somebody else has written may be no text at all: each of its bytes is
 * returned as a character, so that it is recognized when it is to be replaced.
 */
export async function keepNewest(
  client: RedisClient,
  name: string,
  text: string | null,
  invalid?: string,
): Promise<string | null> {
  const values = [text ?? '', invalid ?? ''].map((each) => Buffer.from(each, 'latin1'))
  const stored = await client.callBuffer('eval', KEEP_NEWEST, 1, name, ...values)
  return Buffer.isBuffer(stored) ? stored.toString('latin1') : null
}
