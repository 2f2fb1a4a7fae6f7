import { GAP_MS, SLEW, STEP_MS_MIN } from "../../../ports/steady-clock.ts";
import { script } from "../script.ts";

/** Bounds the work of the read after a step. Locks that were left out expire late. */
const LOCKS_MAX = 10_000;
const WAITERS_MAX = 1_000;

/**
 * Reads and advances the time of the cluster: `advanceSharedTime` in `ports/steady-clock.ts`, where the rules are.
 *
 * clock    hash: `at` the time of the cluster, `wall` the clock of this server at that time
 *
 * Redis stores when a key expires, not how long it lives. If its clock is set back, the lock of a process that has crashed
 * would be held for the length of the step. So the first read after the step takes it off the leases of locks and waiters. One
 * that was renewed since the step is shorter than the step, and is kept.
 *
 * KEYS[1]  key prefix
 * ARGV     the time of the caller, "" before its first read; "1" to read after a gap
 * returns  the time of the cluster and the clock of this server in milliseconds; nothing after a gap
 */
export const CLOCK = script(`
local key, own, time = KEYS[1] .. 'clock', tonumber(ARGV[1]), redis.call('TIME')
local wall = time[1] * 1000 + time[2] / 1000
local last = redis.call('HMGET', key, 'at', 'wall')
local at = own or wall
if last[1] and last[2] then
  local before, elapsed = tonumber(last[1]), wall - tonumber(last[2])
  if not own and (elapsed < 0 or elapsed > ${GAP_MS}) and ARGV[2] ~= '1' then return {} end
  at = before + math.max(0, elapsed)
  if elapsed < 0 then
    local function shorten(name)
      local left = redis.call('PTTL', name) + math.floor(elapsed)
      if left > 0 then redis.call('PEXPIRE', name, left) end
    end
    for _, lock in ipairs(redis.call('ZRANGE', KEYS[1] .. 'lock:index', '0', '${LOCKS_MAX - 1}', 'REV')) do
      local queue = KEYS[1] .. 'lock:queue:' .. lock
      shorten(lock)
      shorten(queue)
      for _, token in ipairs(redis.call('ZRANGE', queue, '0', '${WAITERS_MAX - 1}')) do
        shorten(KEYS[1] .. 'lock:waiter:' .. token)
      end
    end
  end
  local canTell = own and own > before - ${STEP_MS_MIN}
  if elapsed < 0 or (canTell and math.abs(at - own) > ${STEP_MS_MIN}) then
    at = math.max(before, own or 0)
  else
    local most = math.min(elapsed, ${GAP_MS}) * ${SLEW}
    at = at + math.max(-most, math.min(most, wall - at))
  end
end
redis.call('HSET', key, 'at', string.format('%.3f', at), 'wall', string.format('%.3f', wall))
return {string.format('%.3f', at), string.format('%.3f', wall)}
`);
