import { script } from "../script.ts";
import { RECORDS } from "./records.ts";

/**
 * One page of a list with its records.
 *
 * KEYS[1]  key prefix
 * ARGV     list ("table/name"), table, limit, "newest" or "oldest", where the page starts and ends, as bounds of ZRANGE BYLEX
 * returns  member, record, member, record, …
 *
 * Members have the Redis score 0 and start with their padded score, so they sort by (score, id). A page can start after a
 * member that has been removed.
 */
export const LIST = script(`${RECORDS}
local P, call = KEYS[1], redis.call
local list, record = P .. 'l:' .. ARGV[1], P .. 'r:' .. ARGV[2] .. '/'
local members
if ARGV[4] == 'oldest' then
  members = call('ZRANGE', list, ARGV[5], ARGV[6], 'BYLEX', 'LIMIT', '0', ARGV[3])
else
  members = call('ZRANGE', list, ARGV[5], ARGV[6], 'BYLEX', 'REV', 'LIMIT', '0', ARGV[3])
end
local out, n = {}, 0
for _, member in ipairs(members) do
  local value = read(record .. string.sub(member, string.find(member, ':', 1, true) + 1))
  if value then
    out[n + 1], out[n + 2] = member, value
    n = n + 2
  end
end
return out
`);

/**
 * The number of entries of a list.
 *
 * KEYS[1]  key prefix
 * ARGV     list ("table/name"), first and last member, as bounds of ZLEXCOUNT
 */
export const COUNT = script(`
return redis.call('ZLEXCOUNT', KEYS[1] .. 'l:' .. ARGV[1], ARGV[2], ARGV[3])
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
