/** Bytes that contain the last line of a record. */
export const LAST_LINE_MAX = 80;

/** Lua pattern of the checksum at the end of a record; records of schema 1 have none. */
export const SUM = " ?#?%x*";

/** Lua functions that read records. */
export const RECORDS = `
-- The text of a record, nil if it is absent, '' if it has another type.
local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return '' end
  return value or nil
end

-- Due time and queue score from the last line of a record: '-' for none or an absent record, '0' for one that cannot be read.
local function places(key)
  local tail = redis.pcall('GETRANGE', key, '-${LAST_LINE_MAX}', '-1')
  if tail == '' and redis.call('EXISTS', key) == 0 then return '-', '-' end
  local due, score
  if type(tail) == 'string' then due, score = string.match(tail, '\\n%d+ (%S+) (%S+)${SUM}$') end
  local function known(at) return at and (at == '-' or tonumber(at)) and at or '0' end
  return known(due), known(score)
end
`;
