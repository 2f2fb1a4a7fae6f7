import { script } from "../script.ts";
import { RECORDS } from "./records.ts";

/**
 * Claims on queues and due records.
 *
 * A claim moves the entry to a second sorted set, scored by the end of the claim, so that reading the head of a queue skips
 * no claimed entries. The original position is in the last line of the record ("version due score #sum"); an expired claim is
 * moved back to it. A record that cannot be read goes to the front: the next claim finds and reports it.
 */

/**
 * Claims the first entries of a queue.
 *
 * KEYS[1]  key prefix
 * ARGV     queue ("table/name"), table, limit, now, end of the claim
 * returns  id, record, id, record, …
 */
export const TAKE = script(`${RECORDS}
local P, call = KEYS[1], redis.call
local queue, claims, record = P .. 'q:' .. ARGV[1], P .. 'k:' .. ARGV[1], P .. 'r:' .. ARGV[2] .. '/'
for _, id in ipairs(call('ZRANGE', claims, '-inf', ARGV[4], 'BYSCORE')) do
  local _, score = places(record .. id)
  if score ~= '-' then call('ZADD', queue, score, id) end
  call('ZREM', claims, id)
end
local out, n = {}, 0
for _, id in ipairs(call('ZRANGE', queue, '0', ARGV[3] - 1)) do
  local value = read(record .. id)
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
 * Releases claims on queue entries.
 *
 * KEYS[1]  key prefix
 * ARGV     queue ("table/name"), table, ids
 * returns  the number of claims released
 */
export const UNTAKE = script(`${RECORDS}
local P, call = KEYS[1], redis.call
local queue, claims, record = P .. 'q:' .. ARGV[1], P .. 'k:' .. ARGV[1], P .. 'r:' .. ARGV[2] .. '/'
local n = 0
for i = 3, #ARGV do
  if call('ZREM', claims, ARGV[i]) == 1 then
    local _, score = places(record .. ARGV[i])
    if score ~= '-' then call('ZADD', queue, score, ARGV[i]) end
    n = n + 1
  end
end
return n
`);

/**
 * Claims due records.
 *
 * KEYS[1]  key prefix
 * ARGV     limit, now, due at or before, end of the claim, due at or after
 * returns  rid ("table/id"), record, rid, record, …
 */
export const DUE = script(`${RECORDS}
local P, call = KEYS[1], redis.call
local due, claims, record = P .. 'due', P .. 'due:claims', P .. 'r:'
for _, rid in ipairs(call('ZRANGE', claims, '-inf', ARGV[2], 'BYSCORE')) do
  local at = places(record .. rid)
  if at ~= '-' then call('ZADD', due, at, rid) end
  call('ZREM', claims, rid)
end
local out, n = {}, 0
for _, rid in ipairs(call('ZRANGE', due, ARGV[5], ARGV[3], 'BYSCORE', 'LIMIT', '0', ARGV[1])) do
  local value = read(record .. rid)
  if value then
    out[n + 1], out[n + 2] = rid, value
    n = n + 2
    call('ZADD', claims, ARGV[4], rid)
  end
  call('ZREM', due, rid)
end
return out
`);
