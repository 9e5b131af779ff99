// Texts that outlive the database: only a greater text replaces one.
import type { RedisClient } from './connection.ts'

/**
 * Stores the text unless a greater one, other than the second argument, is stored. Returns the one that is stored: at
 * most its first 10,000 characters, and for a value that is no text an empty one.
 */
const KEEP_NEWEST = `
local kind = redis.call('type', KEYS[1]).ok
local stored = kind ~= 'none' and (kind == 'string' and redis.call('getrange', KEYS[1], 0, 9999) or '')
if ARGV[1] ~= '' and (not stored or ARGV[1] > stored or stored == ARGV[2]) then
  redis.call('set', KEYS[1], ARGV[1])
  return ARGV[1]
end
return stored`

/** See `Witness`. */
export async function keepNewest(
  client: RedisClient,
  name: string,
  text: string | null,
  invalid?: string,
): Promise<string | null> {
  const stored = await client.eval(KEEP_NEWEST, 1, name, text ?? '', invalid ?? '')
  return typeof stored === 'string' ? stored : null
}
