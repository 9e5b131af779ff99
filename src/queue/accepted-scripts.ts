// The scripts of the stream of accepted requests, which Redis runs.

/**
 * Appends one entry for a batch, because each entry costs as much as the rest of a request, and removes the oldest.
 * Whatever somebody else has written to these keys, the stream stays bounded and can be appended to: it begins anew if
 * its length is no possible one, if its key has another type, or if an id is ahead of Redis's clock, so that a time no
 * longer finds an entry. Returns 1 if it began anew.
 *
 * KEYS: the stream, its length, until when it is incomplete. ARGV: the greatest length, 1 if requests are missing, the
 * length of the entry, its text, and by how many ms an id may be ahead.
 */
export const APPEND = `
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.ceil(now[2] / 1000)
local size = tonumber(ARGV[3])

local function add()
  return redis.pcall('XADD', KEYS[1], '*', 'requests', ARGV[4], 'count', size)
end

-- Each request has more than 64 bytes.
local function sizeOf(fields)
  local size = tonumber(fields[4])
  local is_possible = size and size >= 1 and size % 1 == 0 and size <= #(fields[2] or '') / 64
  return is_possible and size or 1
end

local stored = redis.pcall('GETRANGE', KEYS[2], 0, 19)
local length = stored == '' and 0 or tonumber(stored)
local added = add()
local failure = type(added) == 'table' and added.err
if failure and not (failure:find('WRONGTYPE') or failure:find('exhausted')) then return added end
local begins_anew = failure or not (length and length >= 0 and length <= 2^53)
  or tonumber(added:match('^%d+')) > now_ms + ARGV[5]
if begins_anew then
  redis.call('UNLINK', KEYS[1])
  length = 0
  added = add()
  if type(added) == 'table' then return added end
end

length = length + size
for _ = 1, math.max(100, size) do
  if length <= tonumber(ARGV[1]) then break end
  local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not first then length = 0 break end
  redis.call('XDEL', KEYS[1], first[1])
  length = math.max(0, length - sizeOf(first[2]))
end
redis.call('SET', KEYS[2], string.format('%.0f', length))
if begins_anew or ARGV[2] == '1' then redis.call('SET', KEYS[3], string.format('%.0f', now_ms)) end
return begins_anew and 1 or 0`

/** The ids and texts of entries; false in place of a text that is too long or missing. */
export const READ = `
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
for n, entry in ipairs(entries) do
  local text = entry[2][2]
  entries[n] = {entry[1], text and #text <= tonumber(ARGV[3]) and text}
end
return entries`

/** The id of the first entry, and until when requests are missing. */
export const COMPLETE_SINCE = `
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
return {first and first[1] or false, redis.call('GETRANGE', KEYS[2], 0, 19)}`
