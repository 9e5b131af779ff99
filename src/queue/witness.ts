// Texts that outlive the database: only a greater text replaces one.
import type { RedisClient } from './connection.ts'

/** Stores the text unless a greater one is stored, by their bytes. Returns the greatest. */
const KEEP_NEWEST = `
local stored = redis.call('get', KEYS[1])
if ARGV[1] ~= '' and (not stored or ARGV[1] > stored) then
  redis.call('set', KEYS[1], ARGV[1])
  return ARGV[1]
end
return stored`

/** Stores `text` under `name` unless a greater text is stored, and returns the greatest; null: none is stored. */
export async function keepNewest(
  client: RedisClient,
  name: string,
  text: string | null,
): Promise<string | null> {
  const stored = await client.eval(KEEP_NEWEST, 1, name, text ?? '')
  return typeof stored === 'string' ? stored : null
}
