import { script } from "../script.ts";

/**
 * Locks and their wait queues.
 *
 * <lock>               "token\nfence\nowner", with the TTL of the lease. "token\nfence next fence\nowner" reserves the lock
 *                      for the first waiter if it belongs to the holder's process: a release then grants it to no other
 *                      waiter, so that process may hand it over locally before the release reaches the server.
 * lock:queue:<lock>    tokens of the waiters, by arrival number
 * lock:waiter:<token>  "process\norg\nttl\nowner", expires if the waiter stops renewing its place
 * lock:fence:<org>     the last fence of an org
 * lock:arrivals        the last arrival number
 * lock:index           every lock that is held or has waiters, by the number of waiters
 * lock:wake:<process>  channel that announces grants to a process: "token fence", followed by " next fence" if the lock is
 *                      reserved
 *
 * KEYS[1]  key prefix
 * ARGV     the calls, one after the other: the number of arguments (itself included), the name, the full key of the lock,
 *          the token of the caller, and
 *            acquire  ttl, owner, org, process, waiter lease, "1" to enter the queue, arrival number ("" for none)
 *            release  waiter lease, process, owner of the waiter that received a local hand-over ("" for none)
 *            leave    ttl
 *            renew    ttl
 * returns  one reply per call
 *            acquire  {1, fence, 1 if this call took a free lock, 0 if the lock had been handed over before}
 *                     {0, arrival number, ms until the holder's lease ends, holder, 1 if the lock was free and went to
 *                     another waiter, a fence: a later hand-over to this waiter has a larger one}
 *            release  1 if the token held the lock, else 0; the announcement if the lock went to a waiter of the same process
 *            leave    {1, fence} if the token holds the lock, else {0, holder or ""}
 *            renew    the fence if the token holds the lock, else 0
 */
export const LOCKS = script(`
local P, A, call = KEYS[1], ARGV, redis.call
local index = P .. 'lock:index'
local lock, token, queue

local function waiter(of) return P .. 'lock:waiter:' .. of end
local function parse(value) return string.match(value, '^(.-)\\n(%d+) ?(%S*) ?(%d*)\\n(.*)$') end

-- Samples the index and drops locks that expired without a release.
local function sweepIndex()
  for _, key in ipairs(call('ZRANDMEMBER', index, '16')) do
    if call('EXISTS', key, P .. 'lock:queue:' .. key) == 0 then call('ZREM', index, key) end
  end
end

local function fenceFor(org)
  local fence = call('INCR', P .. 'lock:fence:' .. org)
  if fence % 128 == 0 then sweepIndex() end
  return fence
end

local function updateIndex()
  local waiters = call('ZCARD', queue)
  if waiters > 0 or call('EXISTS', lock) == 1 then call('ZADD', index, waiters, lock) else call('ZREM', index, lock) end
end

local function leaveQueue(waiterToken)
  call('ZREM', queue, waiterToken)
  call('DEL', waiter(waiterToken))
end

local function registration(waiterToken)
  local value = waiterToken and call('GET', waiter(waiterToken))
  if value then return string.match(value, '^(.-)\\n(.-)\\n(.-)\\n(.*)$') end
end

-- Reserves the lock for the waiter at that position if it belongs to that process.
local function reserve(process, at)
  local waiterToken = call('ZRANGE', queue, at, at)[1]
  local waiterProcess, org = registration(waiterToken)
  return waiterProcess == process and ' ' .. waiterToken .. ' ' .. fenceFor(org) or ''
end

-- Expires after a waiter lease unless the new holder renews it.
local function hold(waiterToken, grant, owner, ttl, leaseMs)
  call('SET', lock, waiterToken .. '\\n' .. grant .. '\\n' .. owner, 'PX', math.min(tonumber(ttl), tonumber(leaseMs)))
  return waiterToken, grant
end

local function handTo(waiterToken, ...)
  leaveQueue(waiterToken)
  return hold(waiterToken, ...)
end

-- Grants a free lock to the first live waiter.
-- A waiter waiterProcess process is not subscribed is skipped and keeps its place, unless it is the only one.
-- Waiters of the calling process (own) learn of the grant from the reply.
local function handOver(leaseMs, own)
  local at, unsubscribed = 0, nil
  while true do
    local waiterToken = call('ZRANGE', queue, at, at)[1]
    if not waiterToken then break end
    local process, org, ttl, owner = registration(waiterToken)
    if not process then
      call('ZREM', queue, waiterToken)
    else
      local grant = fenceFor(org) .. (at == 0 and reserve(process, 1) or '')
      if process == own then
        handTo(waiterToken, grant, owner, ttl, leaseMs)
        return waiterToken, grant, true
      end
      if waiterToken == token or call('PUBLISH', P .. 'lock:wake:' .. process, waiterToken .. ' ' .. grant) > 0 then
        return handTo(waiterToken, grant, owner, ttl, leaseMs)
      end
      unsubscribed = unsubscribed or { waiterToken, grant, owner, ttl, leaseMs }
      at = at + 1
    end
  end
  if unsubscribed then return handTo(unpack(unsubscribed)) end
end

-- Grants the lock to the waiter it is reserved for, even if its registration expired: it may already work under the lock.
local function grantReserved(waiterToken, fence, leaseMs, own, successorOwner)
  local _, _, ttl, owner = registration(waiterToken)
  leaveQueue(waiterToken)
  return hold(waiterToken, fence .. reserve(own, 0), owner or successorOwner, ttl or leaseMs, leaseMs)
end

-- Leaves the queue and drops the reservation.
local function cancelWait(held)
  leaveQueue(token)
  if not held then return end
  local holderToken, fence, next, _, owner = parse(held)
  if next == token then call('SET', lock, holderToken .. '\\n' .. fence .. '\\n' .. owner, 'KEEPTTL') end
end

local calls = {}

-- Takes the lock or enters the queue; a waiter repeats it to renew its place.
function calls.acquire(ttl, owner, org, process, leaseMs, isQueueing, arrival)
  local held = call('GET', lock)
  if held then
    local holderToken, fence = parse(held)
    if holderToken == token then
      call('PEXPIRE', lock, ttl)
      return {1, tonumber(fence), 0}
    end
  end
  -- The queue is empty. The caller may have registered as a waiter before.
  local function take()
    local fence = fenceFor(org)
    call('SET', lock, token .. '\\n' .. fence .. '\\n' .. owner, 'PX', ttl)
    if arrival ~= '' then call('DEL', waiter(token)) end
    call('ZADD', index, '0', lock)
    return {1, fence, 1}
  end
  if not held and call('EXISTS', queue) == 0 then return take() end
  if isQueueing == '1' then
    if arrival == '' then arrival = call('INCR', P .. 'lock:arrivals') end
    call('ZADD', queue, 'NX', arrival, token)
    call('PEXPIRE', queue, leaseMs * 10)
    call('SET', waiter(token), process .. '\\n' .. org .. '\\n' .. ttl .. '\\n' .. owner, 'PX', leaseMs)
  end
  if not held then
    local holderToken, grant = handOver(leaseMs)
    if not holderToken then return take() end
    if holderToken == token then
      call('PEXPIRE', lock, ttl)
      updateIndex()
      return {1, tonumber(string.match(grant, '^%d+')), 1}
    end
  end
  local wasFree = held and 0 or 1
  if held then
    if isQueueing == '1' then call('ZADD', index, call('ZCARD', queue), lock) end
  else
    updateIndex()
    held = call('GET', lock)
  end
  local _, _, next, nextFence, holder = parse(held)
  local last = next == token and nextFence - 1 or tonumber(call('GET', P .. 'lock:fence:' .. org) or 0)
  return {0, tonumber(arrival) or 0, call('PTTL', lock), holder, wasFree, last}
end

-- Releases the lock and hands it over; a token that does not hold it leaves the queue.
function calls.release(leaseMs, process, successorOwner)
  local held = call('GET', lock)
  local holderToken, _, next, nextFence
  if held then holderToken, _, next, nextFence = parse(held) end
  if holderToken ~= token then
    if next == token or call('ZSCORE', queue, token) then
      cancelWait(held)
      updateIndex()
    end
    return 0
  end
  -- Hot path: the waiter count in the index may be one too large until a waiter calls again. LIST_LOCKS counts live waiters.
  local successor, grant, isOwn
  if next ~= '' then
    successor, grant = grantReserved(next, nextFence, leaseMs, process, successorOwner)
    isOwn = true
  else
    successor, grant, isOwn = handOver(leaseMs, process)
  end
  if isOwn then return successor .. ' ' .. grant end
  if not successor then
    call('DEL', lock)
    call('ZREM', index, lock)
  end
  return 1
end

-- Leaves the queue unless the lock has been handed over.
function calls.leave(ttl)
  local held = call('GET', lock)
  local holderToken, fence, holder, _
  if held then holderToken, fence, _, _, holder = parse(held) end
  if holderToken == token then
    call('PEXPIRE', lock, ttl)
    return {1, tonumber(fence)}
  end
  cancelWait(held)
  updateIndex()
  return {0, holder or ''}
end

function calls.renew(ttl)
  local held = call('GET', lock)
  if not held then return 0 end
  local holderToken, fence = parse(held)
  if holderToken ~= token then return 0 end
  call('PEXPIRE', lock, ttl)
  return tonumber(fence)
end

local replies, n, at, last = {}, 0, 1, #A
while at <= last do
  local stop = at + A[at]
  lock, token = A[at + 2], A[at + 3]
  queue = P .. 'lock:queue:' .. lock
  n = n + 1
  replies[n] = calls[A[at + 1]](unpack(A, at + 4, stop - 1))
  at = stop
end
return replies
`);

/**
 * The locks that are held or have waiters, most waiters first.
 *
 * ARGV     limit
 * returns  lock, holder, fence, end of the lease, live waiters, lock, …
 */
export const LIST_LOCKS = script(`
local P, call = KEYS[1], redis.call
local index = P .. 'lock:index'
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out, n, at = {}, 0, 0
while n < ARGV[1] * 5 do
  local lock = call('ZRANGE', index, at, at, 'REV')[1]
  if not lock then break end
  local held, waiters, queue = call('GET', lock), 0, P .. 'lock:queue:' .. lock
  for _, token in ipairs(call('ZRANGE', queue, '0', '-1')) do
    waiters = waiters + call('EXISTS', P .. 'lock:waiter:' .. token)
  end
  if held or waiters > 0 then
    local fence, holder = string.match(held or '', '^.-\\n(%d+)[^\\n]*\\n(.*)$')
    out[n + 1], out[n + 2], out[n + 3] = lock, holder or '', tonumber(fence or 0)
    out[n + 4], out[n + 5] = held and now + call('PTTL', lock) or 0, waiters
    n = n + 5
    at = at + 1
  else
    call('DEL', queue)
    call('ZREM', index, lock)
  end
end
return out
`);
