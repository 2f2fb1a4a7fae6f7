import { script } from "../script.ts";

/**
 * Claims on queues and on due records.
 *
 * What is claimed stands in a second set, with the end of its claim as its score, and not in the first one: so looking
 * for heads never walks over what others have. Its place is in the last line of its record ("version due score"), from
 * where it is put back when the claim has run out.
 */

/**
 * The heads of a queue, claimed.
 *
 * KEYS[1]  the prefix of all keys
 * ARGV     queue ("table/name"), table, how many at most, now, until when they are claimed
 * returns  id, record, id, record, …
 */
export const TAKE = script(`
local P, call = KEYS[1], redis.call
local queue, claims, record = P .. 'q:' .. ARGV[1], P .. 'k:' .. ARGV[1], P .. 'r:' .. ARGV[2] .. '/'
for _, id in ipairs(call('ZRANGE', claims, '-inf', ARGV[4], 'BYSCORE')) do
  local score = string.match(call('GETRANGE', record .. id, '-64', '-1'), ' (%S+)$')
  if score and score ~= '-' then call('ZADD', queue, score, id) end
  call('ZREM', claims, id)
end
local out, n = {}, 0
for _, id in ipairs(call('ZRANGE', queue, '0', ARGV[3] - 1)) do
  local value = call('GET', record .. id)
  if value then
    out[n + 1], out[n + 2] = id, value
    n = n + 2
    call('ZADD', claims, ARGV[5], id)
  end
  call('ZREM', queue, id)
end
return out
`);

/**
 * Gives back what was taken.
 *
 * KEYS[1]  the prefix of all keys
 * ARGV     queue ("table/name"), table, ids
 * returns  how many were claimed
 */
export const UNTAKE = script(`
local P, call = KEYS[1], redis.call
local queue, claims, record = P .. 'q:' .. ARGV[1], P .. 'k:' .. ARGV[1], P .. 'r:' .. ARGV[2] .. '/'
local n = 0
for i = 3, #ARGV do
  if call('ZREM', claims, ARGV[i]) == 1 then
    local score = string.match(call('GETRANGE', record .. ARGV[i], '-64', '-1'), ' (%S+)$')
    if score and score ~= '-' then call('ZADD', queue, score, ARGV[i]) end
    n = n + 1
  end
end
return n
`);

/**
 * Records whose time has come, claimed.
 *
 * KEYS[1]  the prefix of all keys
 * ARGV     how many at most, now, due at or before, until when they are claimed
 * returns  rid ("table/id"), record, rid, record, …
 */
export const DUE = script(`
local P, call = KEYS[1], redis.call
local due, claims, record = P .. 'due', P .. 'due:claims', P .. 'r:'
for _, rid in ipairs(call('ZRANGE', claims, '-inf', ARGV[2], 'BYSCORE')) do
  local at = string.match(call('GETRANGE', record .. rid, '-64', '-1'), ' (%S+) %S+$')
  if at and at ~= '-' then call('ZADD', due, at, rid) end
  call('ZREM', claims, rid)
end
local out, n = {}, 0
for _, rid in ipairs(call('ZRANGE', due, '-inf', ARGV[3], 'BYSCORE', 'LIMIT', '0', ARGV[1])) do
  local value = call('GET', record .. rid)
  if value then
    out[n + 1], out[n + 2] = rid, value
    n = n + 2
    call('ZADD', claims, ARGV[4], rid)
  end
  call('ZREM', due, rid)
end
return out
`);
