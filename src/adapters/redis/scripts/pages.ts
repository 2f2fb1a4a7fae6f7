import { script } from "../script.ts";
import { RECORDS } from "./records.ts";

/**
 * One page of the union of lists with its records.
 *
 * KEYS[1]  key prefix
 * ARGV     table, limit, "newest" or "oldest", where the page starts and ends, as bounds of ZRANGE BYLEX, list
 *          ("table/name"), list, …
 * returns  member, record, member, record, …
 *
 * Members have the Redis score 0 and start with their padded score, so they sort by (score, id). A page can start after a
 * member that has been removed.
 */
export const LIST = script(`${RECORDS}
local P, call = KEYS[1], redis.call
local record, isOldest, limit = P .. 'r:' .. ARGV[1] .. '/', ARGV[3] == 'oldest', tonumber(ARGV[2])
local function page(list)
  if isOldest then return call('ZRANGE', list, ARGV[4], ARGV[5], 'BYLEX', 'LIMIT', '0', ARGV[2]) end
  return call('ZRANGE', list, ARGV[4], ARGV[5], 'BYLEX', 'REV', 'LIMIT', '0', ARGV[2])
end
local members = {}
for at = 6, #ARGV do
  local some = page(P .. 'l:' .. ARGV[at])
  if #members == 0 then members = some
  else for _, member in ipairs(some) do members[#members + 1] = member end end
end
if #ARGV > 6 then
  table.sort(members, function(a, b) if isOldest then return a < b end return a > b end)
end
local out, n = {}, 0
for at = 1, math.min(#members, limit) do
  local member = members[at]
  local value = read(record .. string.sub(member, string.find(member, ':', 1, true) + 1))
  if value then
    out[n + 1], out[n + 2] = member, value
    n = n + 2
  end
end
return out
`);

/**
 * The number of entries of lists.
 *
 * KEYS[1]  key prefix
 * ARGV     first and last member, as bounds of ZLEXCOUNT, list ("table/name"), list, …
 */
export const COUNT = script(`
local size = 0
for at = 3, #ARGV do size = size + redis.call('ZLEXCOUNT', KEYS[1] .. 'l:' .. ARGV[at], ARGV[1], ARGV[2]) end
return size
`);

/**
 * The oldest messages of the outbox.
 *
 * KEYS[1]  key prefix
 * ARGV     committed before this time, limit
 * returns  message, message, …
 */
export const UNSENT = script(`
local P = KEYS[1]
local ids = redis.call('ZRANGE', P .. 'outbox:at', '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', '0', ARGV[2])
local out, n = {}, 0
for _, id in ipairs(ids) do
  local message = redis.call('HGET', P .. 'outbox', id)
  if message then n = n + 1 out[n] = message end
end
return out
`);

/**
 * The counters of a group. If there are more than the limit, the result is a random sample.
 *
 * KEYS[1]  key prefix
 * ARGV     group, limit
 * returns  name, value, name, value, …
 */
export const COUNTS = script(`
return redis.call('HRANDFIELD', KEYS[1] .. 'c:' .. ARGV[1], ARGV[2], 'WITHVALUES')
`);

/**
 * Sets a counter to the total number of entries of the given lists. A counter of 0 is deleted.
 *
 * KEYS[1]  key prefix
 * ARGV     group, name, list ("table/name"), list, …
 * returns  the old value minus the new one
 */
export const RECOUNT = script(`
local P, call = KEYS[1], redis.call
local counters, name, right = P .. 'c:' .. ARGV[1], ARGV[2], 0
for at = 3, #ARGV do right = right + call('ZCARD', P .. 'l:' .. ARGV[at]) end
local off = tonumber(call('HGET', counters, name) or 0) - right
if off ~= 0 then
  if right == 0 then call('HDEL', counters, name) else call('HSET', counters, name, right) end
end
return off
`);
