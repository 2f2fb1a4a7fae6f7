/** Lua functions that read records. */
export const RECORDS = `
-- The text of a record, nil if it is absent, '' if it has another type.
local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return '' end
  return value or nil
end

-- A position from the last line of a record: '-' for none or an absent record, '0' for one that cannot be read.
local function position(key, pattern)
  local tail = redis.pcall('GETRANGE', key, '-64', '-1')
  if tail == '' and redis.call('EXISTS', key) == 0 then return '-' end
  local at = type(tail) == 'string' and string.match(tail, pattern)
  return (at == '-' or tonumber(at)) and at or '0'
end
`;
