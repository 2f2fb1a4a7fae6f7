import { script } from "../script.ts";
import { LAST_LINE_MAX, SUM } from "./records.ts";

/**
 * Applies a batch of changes, each atomically.
 *
 * KEYS[1]  key prefix
 * ARGV     the process, then the changes, one after the other. Each is the number of its arguments (itself included), then
 *          its operations. Checks come first, in the order in which they are reported:
 *            P rid expect next value due   put: `expect` is the current version (0: absent; "": any), `next` the new version
 *                                          ("" if `expect` is ""), `value` the record ("" deletes it; its version is "?" if
 *                                          `next` is ""), `due` its due time ("" none, "=" unchanged)
 *            M rid expect next more due    the same, but appends `more` to the record
 *            F rid fence                   the stored fence is not larger
 *            A rid                         the record is absent
 *            L lock                        the lock is not held and has no waiters
 *            G group name delta max        counter + delta is at most max
 *            C group name delta max        the same ("" for no limit), and adds delta to the counter
 *          then the other writes:
 *            Z / z list member             add to, remove from a list
 *            Q queue id score / q queue id add to, remove from a queue
 *            O at id message / S id        add to, remove from the outbox
 *            T name delta                  add to a total
 *            w group name                  return this counter
 * returns  one reply per change: 0 if committed, an array of the requested counters if committed, 2n - 1 if the nth put is
 *          stale, 2n if the nth guard fails, "2n value" if that guard is on a counter, "!rid" if that record cannot be
 *          read; then the number of batches of this process (see `schema-guard.ts`)
 *
 * Changes are checked one after the other against in-memory overlays (`versions`, `fences`, `counters`), so each sees the
 * changes before it. All writes happen at the end, grouped by command: this saves most of the calls, and no error can
 * occur between two parts of a change.
 */
export const COMMIT = script(`
local P, A, call = KEYS[1], ARGV, redis.call
local RECORD, FENCE, COUNTER = P .. 'r:', P .. 'f:', P .. 'c:'
local FENCE_KEPT_MS = '604800000'

local versions, records, appends, dues, fences = {}, {}, {}, {}, {}
local counters, touched, lists, queues = {}, {}, {}, {}
local outbox, outboxed, sent, totals = {}, 0, {}, {}

-- '0' for an absent record, '!' for one that cannot be read. The end of a record has its version. A record that should be
-- absent is read whole: GETRANGE cannot tell an absent record from an empty one.
local function version(rid, isNew)
  local v = versions[rid]
  if v then return v end
  local text
  if isNew then text = redis.pcall('GET', RECORD .. rid) else text = redis.pcall('GETRANGE', RECORD .. rid, '-${LAST_LINE_MAX}', '-1') end
  if not text or text == '' and not isNew then v = '0'
  else v = type(text) == 'string' and string.match(string.sub(text, -${LAST_LINE_MAX}), '\\n(%d+) %S+ %S+${SUM}$') or '!' end
  versions[rid] = v
  return v
end

local function fence(rid)
  local f = fences[rid]
  if not f then f = call('GET', FENCE .. rid) or '0' end
  return tonumber(f)
end

local function count(group, name)
  local names = counters[group]
  if not names then names = {} counters[group] = names end
  local n = names[name]
  if not n then n = tonumber(call('HGET', COUNTER .. group, name) or 0) names[name] = n end
  return n
end

local function move(sets, set, member, where)
  local members = sets[set]
  if not members then members = {} sets[set] = members end
  members[member] = where
end

local function refusal(i, stop)
  local puts, guards = 0, 0
  while i < stop do
    local op = A[i]
    if op == 'P' or op == 'M' then
      puts = puts + 1
      local rid, expect = A[i + 1], A[i + 2]
      local v = version(rid, expect == '0' or expect == '')
      if v == '!' then return '!' .. rid end
      if expect ~= '' and v ~= expect then return puts * 2 - 1 end
      i = i + 6
    elseif op == 'C' or op == 'G' then
      local max = A[i + 4]
      if max ~= '' then
        guards = guards + 1
        local n = count(A[i + 1], A[i + 2])
        if n + A[i + 3] > tonumber(max) then return guards * 2 .. ' ' .. n end
      end
      i = i + 5
    elseif op == 'F' then
      guards = guards + 1
      if fence(A[i + 1]) > tonumber(A[i + 2]) then return guards * 2 end
      i = i + 3
    elseif op == 'A' then
      guards = guards + 1
      local v = version(A[i + 1], true)
      if v == '!' then return '!' .. A[i + 1] end
      if v ~= '0' then return guards * 2 end
      i = i + 2
    elseif op == 'L' then
      guards = guards + 1
      local lock = P .. A[i + 1]
      if call('EXISTS', lock, P .. 'lock:queue:' .. lock) > 0 then return guards * 2 end
      i = i + 2
    else
      return 0
    end
  end
  return 0
end

local function apply(i, stop)
  local seen
  while i < stop do
    local op = A[i]
    if op == 'P' then
      local rid, next, value, due = A[i + 1], A[i + 3], A[i + 4], A[i + 5]
      if value == '' then
        next, value = '0', false
      elseif next == '' then
        next = version(rid) + 1 .. ''
        value = string.gsub(value, '%?( %S+ %S+ #%x+)$', next .. '%1')
      end
      versions[rid], records[rid], appends[rid] = next, value, nil
      if due ~= '=' then dues[rid] = due end
      i = i + 6
    elseif op == 'M' then
      local rid, more, due = A[i + 1], A[i + 4], A[i + 5]
      versions[rid] = A[i + 3]
      if records[rid] then records[rid] = records[rid] .. more else appends[rid] = (appends[rid] or '') .. more end
      if due ~= '=' then dues[rid] = due end
      i = i + 6
    elseif op == 'Z' then move(lists, A[i + 1], A[i + 2], true) i = i + 3
    elseif op == 'z' then move(lists, A[i + 1], A[i + 2], false) i = i + 3
    elseif op == 'C' then
      local group, name = A[i + 1], A[i + 2]
      local n = count(group, name) + A[i + 3]
      counters[group][name] = n
      move(touched, group, name, true)
      i = i + 5
    elseif op == 'Q' then move(queues, A[i + 1], A[i + 2], A[i + 3]) i = i + 4
    elseif op == 'q' then move(queues, A[i + 1], A[i + 2], false) i = i + 3
    elseif op == 'O' then
      outboxed = outboxed + 1
      outbox[outboxed] = i
      sent[A[i + 2]] = nil
      i = i + 4
    elseif op == 'S' then sent[A[i + 1]] = true i = i + 2
    elseif op == 'T' then
      totals[A[i + 1]] = (totals[A[i + 1]] or 0) + A[i + 2]
      i = i + 3
    elseif op == 'w' then
      seen = seen or {}
      seen[#seen + 1] = count(A[i + 1], A[i + 2])
      i = i + 3
    elseif op == 'F' then fences[A[i + 1]] = A[i + 2] i = i + 3
    elseif op == 'G' then i = i + 5
    elseif op == 'A' or op == 'L' then i = i + 2
    else error('unknown operation ' .. op) end
  end
  return seen or 0
end

-- Splits the arguments into chunks that fit on Lua's stack.
local function many(command, key, args, n)
  for from = 1, n, 4000 do
    local to = math.min(from + 3999, n)
    if key then call(command, key, unpack(args, from, to)) else call(command, unpack(args, from, to)) end
  end
end

local function write()
  local adds, a, rems, r = {}, 0, {}, 0
  for rid, value in pairs(records) do
    if value then adds[a + 1] = RECORD .. rid a = a + 2 adds[a] = value else r = r + 1 rems[r] = RECORD .. rid end
  end
  many('MSET', nil, adds, a)
  many('DEL', nil, rems, r)
  for rid, more in pairs(appends) do call('APPEND', RECORD .. rid, more) end
  for rid, value in pairs(records) do
    if not value then call('PEXPIRE', FENCE .. rid, FENCE_KEPT_MS) end
  end
  for rid, f in pairs(fences) do
    if version(rid) == '0' then call('SET', FENCE .. rid, f, 'PX', FENCE_KEPT_MS) else call('SET', FENCE .. rid, f) end
  end
  for list, members in pairs(lists) do
    adds, a, rems, r = {}, 0, {}, 0
    for member, isIn in pairs(members) do
      if isIn then adds[a + 1] = '0' a = a + 2 adds[a] = member else r = r + 1 rems[r] = member end
    end
    many('ZREM', P .. 'l:' .. list, rems, r)
    many('ZADD', P .. 'l:' .. list, adds, a)
  end
  for queue, ids in pairs(queues) do
    local all, n = {}, 0
    adds, a, rems, r = {}, 0, {}, 0
    for id, score in pairs(ids) do
      n = n + 1
      all[n] = id
      if score then adds[a + 1] = score a = a + 2 adds[a] = id else r = r + 1 rems[r] = id end
    end
    many('ZREM', P .. 'q:' .. queue, rems, r)
    many('ZADD', P .. 'q:' .. queue, adds, a)
    many('ZREM', P .. 'k:' .. queue, all, n)
  end
  local all, n = {}, 0
  adds, a, rems, r = {}, 0, {}, 0
  for rid, due in pairs(dues) do
    n = n + 1
    all[n] = rid
    if due ~= '' then adds[a + 1] = due a = a + 2 adds[a] = rid else r = r + 1 rems[r] = rid end
  end
  many('ZADD', P .. 'due', adds, a)
  many('ZREM', P .. 'due', rems, r)
  if n > 0 and call('EXISTS', P .. 'due:claims') == 1 then many('ZREM', P .. 'due:claims', all, n) end
  for group, names in pairs(touched) do
    adds, a, rems, r = {}, 0, {}, 0
    for name in pairs(names) do
      local now = counters[group][name]
      if now ~= 0 then adds[a + 1] = name a = a + 2 adds[a] = now else r = r + 1 rems[r] = name end
    end
    many('HSET', COUNTER .. group, adds, a)
    many('HDEL', COUNTER .. group, rems, r)
  end
  if outboxed > 0 then
    -- A fraction of a millisecond keeps the commit order of messages with the same time.
    local last = call('INCRBY', P .. 'outbox:seq', outboxed)
    for nth = 1, outboxed do
      local i = outbox[nth]
      local at = string.format('%.11f', A[i + 1] + (last - outboxed + nth) % 2048 / 2048)
      call('ZADD', P .. 'outbox:at', at, A[i + 2])
      call('HSET', P .. 'outbox', A[i + 2], A[i + 3])
    end
  end
  for name, delta in pairs(totals) do call('INCRBY', P .. name, delta) end
  rems, r = {}, 0
  for id in pairs(sent) do r = r + 1 rems[r] = id end
  many('ZREM', P .. 'outbox:at', rems, r)
  many('HDEL', P .. 'outbox', rems, r)
end

local replies, changes, at, last = {}, 0, 2, #A
while at <= last do
  local stop = at + A[at]
  local reply = refusal(at + 1, stop)
  if reply == 0 then reply = apply(at + 1, stop) end
  changes = changes + 1
  replies[changes] = reply
  at = stop
end
write()
replies[changes + 1] = call('INCR', P .. 'process:' .. A[1])
return replies
`);
