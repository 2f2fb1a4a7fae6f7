import { script } from "../script.ts";

/**
 * Locks, and the queues before them.
 *
 * <lock>               "token\nfence\nowner", gone when its time is over. "token\nfence next fence\nowner" promises it to
 *                      the first of the queue, if that is of the holder's process: on a release nobody else gets it, so
 *                      that the holder's process may hand it on before the server has heard of it.
 * lock:queue:<lock>    the tokens of its waiters, by order of arrival
 * lock:waiter:<token>  "process\norg\nttl\nowner", gone when the waiter has shown no sign of life
 * lock:fence:<org>     the last fence of an org
 * lock:arrivals        the last number drawn at the end of a queue
 * lock:index           every lock that is held or waited for, by the number of its waiters
 * lock:wake:<process>  the channel on which a process hears what its waiters were given: "token fence", and " next fence"
 *                      behind it for a promise
 *
 * KEYS[1]  the prefix of all keys
 * ARGV     call after call: the number of its arguments (itself included), its name, a lock's key in full, the token of
 *          who asks, and
 *            ask      ttl, owner, org, process, a waiter's lease, "1" to queue for it, the number drawn before ("" for none)
 *            release  a waiter's lease, the process, the owner of whom it was handed on to already ("" for nobody)
 *            leave    ttl
 *            renew    ttl
 * returns  one answer for each call
 *            ask      {1, fence, 1 if it was free and is taken by this call, 0 if it had been handed over before}
 *                     {0, the number drawn, ms until the holder's time is over, the holder, 1 if it was free and went to
 *                     another, a fence: what is handed to this waiter later has a larger one}
 *            release  1 if the lock was held by this token, else 0; or what the channel would say, if it was and went to a
 *                     waiter of the same process, which hears of it by this answer
 *            leave    {1, fence} or {0, the holder or ""}
 *            renew    the fence if the lock is held by this token, which then has it for another ttl; else 0
 */
export const LOCKS = script(`
local P, A, call = KEYS[1], ARGV, redis.call
local index = P .. 'lock:index'
local lock, token, queue

local function waiter(of) return P .. 'lock:waiter:' .. of end
local function holding(value) return string.match(value, '^(.-)\\n(%d+) ?(%S*) ?(%d*)\\n(.*)$') end

-- A random few of the index that are neither held nor waited for are dropped now and then: what died without a word.
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

local function note()
  local waiters = call('ZCARD', queue)
  if waiters > 0 or call('EXISTS', lock) == 1 then call('ZADD', index, waiters, lock) else call('ZREM', index, lock) end
end

local function leaveQueue(who)
  call('ZREM', queue, who)
  call('DEL', waiter(who))
end

local function factsOf(who)
  local facts = who and call('GET', waiter(who))
  if facts then return string.match(facts, '^(.-)\\n(.-)\\n(.-)\\n(.*)$') end
end

-- The promise for the waiter at that place, if it is of that process.
local function promise(process, at)
  local who = call('ZRANGE', queue, at, at)[1]
  local whose, org = factsOf(who)
  return whose == process and ' ' .. who .. ' ' .. fenceFor(org) or ''
end

-- For a waiter's lease: whoever does not take it up loses it soon.
local function hold(who, turn, owner, ttl, leaseMs)
  call('SET', lock, who .. '\\n' .. turn .. '\\n' .. owner, 'PX', math.min(tonumber(ttl), tonumber(leaseMs)))
  return who, turn
end

local function handTo(who, ...)
  leaveQueue(who)
  return hold(who, ...)
end

-- Gives a free lock to the first waiter that lives.
-- One whose process does not listen right now is passed over, unless nobody else is there; it keeps its place.
-- Waiters of the process that asks (own) are told by the answer.
local function handOver(leaseMs, own)
  local at, deaf = 0, nil
  while true do
    local who = call('ZRANGE', queue, at, at)[1]
    if not who then break end
    local process, org, ttl, owner = factsOf(who)
    if not process then
      call('ZREM', queue, who)
    else
      local turn = fenceFor(org) .. (at == 0 and promise(process, 1) or '')
      if process == own then
        handTo(who, turn, owner, ttl, leaseMs)
        return who, turn, true
      end
      if who == token or call('PUBLISH', P .. 'lock:wake:' .. process, who .. ' ' .. turn) > 0 then
        return handTo(who, turn, owner, ttl, leaseMs)
      end
      deaf = deaf or { who, turn, owner, ttl, leaseMs }
      at = at + 1
    end
  end
  if deaf then return handTo(unpack(deaf)) end
end

-- Gives the lock to whom it was promised, however long that one has not been heard of: it may be at work already.
local function keepPromise(who, fence, leaseMs, own, itsOwner)
  local _, _, ttl, owner = factsOf(who)
  leaveQueue(who)
  return hold(who, fence .. promise(own, 0), owner or itsOwner, ttl or leaseMs, leaseMs)
end

-- Leaves the queue. Who does not wait any more is promised nothing.
local function waitNoMore(held)
  leaveQueue(token)
  if not held then return end
  local who, fence, next, _, owner = holding(held)
  if next == token then call('SET', lock, who .. '\\n' .. fence .. '\\n' .. owner, 'KEEPTTL') end
end

local calls = {}

-- Asks for a lock, and again as a sign of life while waiting for it.
function calls.ask(ttl, owner, org, process, leaseMs, isQueueing, number)
  local held = call('GET', lock)
  if held then
    local who, fence = holding(held)
    if who == token then
      call('PEXPIRE', lock, ttl)
      return {1, tonumber(fence), 0}
    end
  end
  -- Nobody waits: who has waited itself may have left a sign of life.
  local function take()
    local fence = fenceFor(org)
    call('SET', lock, token .. '\\n' .. fence .. '\\n' .. owner, 'PX', ttl)
    if number ~= '' then call('DEL', waiter(token)) end
    call('ZADD', index, '0', lock)
    return {1, fence, 1}
  end
  if not held and call('EXISTS', queue) == 0 then return take() end
  if isQueueing == '1' then
    if number == '' then number = call('INCR', P .. 'lock:arrivals') end
    call('ZADD', queue, 'NX', number, token)
    call('PEXPIRE', queue, leaseMs * 10)
    call('SET', waiter(token), process .. '\\n' .. org .. '\\n' .. ttl .. '\\n' .. owner, 'PX', leaseMs)
  end
  if not held then
    local who, turn = handOver(leaseMs)
    if not who then return take() end
    if who == token then
      call('PEXPIRE', lock, ttl)
      note()
      return {1, tonumber(string.match(turn, '^%d+')), 1}
    end
  end
  local wasFree = held and 0 or 1
  if held then
    if isQueueing == '1' then call('ZADD', index, call('ZCARD', queue), lock) end
  else
    note()
    held = call('GET', lock)
  end
  local _, _, next, promised, holder = holding(held)
  local last = next == token and promised - 1 or tonumber(call('GET', P .. 'lock:fence:' .. org) or 0)
  return {0, tonumber(number) or 0, call('PTTL', lock), holder, wasFree, last}
end

-- Gives a lock back, or a place in its queue, whichever the token has; hands the lock over.
function calls.release(leaseMs, process, heirOwner)
  local held = call('GET', lock)
  local who, _, next, promised
  if held then who, _, next, promised = holding(held) end
  if who ~= token then
    if next == token or call('ZSCORE', queue, token) then
      waitNoMore(held)
      note()
    end
    return 0
  end
  -- Somebody waits for every step of this. The number of waiters in the index may be one too large until one of them asks
  -- again; who lists locks counts those that live.
  local heir, turn, isOwn
  if next ~= '' then
    heir, turn = keepPromise(next, promised, leaseMs, process, heirOwner)
    isOwn = true
  else
    heir, turn, isOwn = handOver(leaseMs, process)
  end
  if isOwn then return heir .. ' ' .. turn end
  if not heir then
    call('DEL', lock)
    call('ZREM', index, lock)
  end
  return 1
end

-- Leaves the queue, unless the lock has been handed over in the meantime.
function calls.leave(ttl)
  local held = call('GET', lock)
  local who, fence, holder, _
  if held then who, fence, _, _, holder = holding(held) end
  if who == token then
    call('PEXPIRE', lock, ttl)
    return {1, tonumber(fence)}
  end
  waitNoMore(held)
  note()
  return {0, holder or ''}
end

function calls.renew(ttl)
  local held = call('GET', lock)
  if not held then return 0 end
  local who, fence = holding(held)
  if who ~= token then return 0 end
  call('PEXPIRE', lock, ttl)
  return tonumber(fence)
end

local answers, n, at, last = {}, 0, 1, #A
while at <= last do
  local stop = at + A[at]
  lock, token = A[at + 2], A[at + 3]
  queue = P .. 'lock:queue:' .. lock
  n = n + 1
  answers[n] = calls[A[at + 1]](unpack(A, at + 4, stop - 1))
  at = stop
end
return answers
`);

/**
 * What is held or waited for, most waiters first.
 *
 * ARGV     how many at most
 * returns  lock, holder, fence, when its time is over, waiters that live, lock, …
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
