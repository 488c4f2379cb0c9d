#!lua flags=no-writes
-- Find the fields of an index of this partition, and the streams that its views may lag behind.
--
-- KEYS  1 feed   2 census (hash)   3 streams that no projector could read (sorted set)   perhaps 4 index (sorted set)
-- ARGV  1 group of the projectors   2 length of a full feed   with an index: 3, 4 bounds of the fields   5 the most fields
--
-- Answers  {sure, fields, names of streams}; sure is 1 if every stream that is ahead of its views is named, else 2 if the
--          group has read the feed, else 0.

local fields = KEYS[4] and redis.call('ZRANGE', KEYS[4], ARGV[3], ARGV[4], 'BYLEX', 'LIMIT', 0, ARGV[5]) or {}
local ahead, known = {}, {}
local function add(name)
  if not known[name] then
    known[name] = true
    ahead[#ahead + 1] = name
  end
end
for _, name in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do add(name) end

local census = redis.call('HMGET', KEYS[2], '\nbegun', '\ndone')
local sure = census[1] and census[1] == census[2]
local lines = redis.call('XLEN', KEYS[1])
-- No line tells of streams that were put here without the ledger (a copy by hand): only the census does.
if lines == 0 then return {sure and 1 or 0, fields, ahead} end

local delivered, owed_count = '0-0', 0
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local facts = {}
  for i = 1, #flat, 2 do facts[flat[i]] = flat[i + 1] end
  if facts['name'] == ARGV[1] then delivered, owed_count = facts['last-delivered-id'], facts['pending'] end
end

local function before(one, other)
  local ms, sequence = string.match(one, '^(%d+)-(%d+)$')
  local other_ms, other_sequence = string.match(other, '^(%d+)-(%d+)$')
  if ms ~= other_ms then return tonumber(ms) < tonumber(other_ms) end
  return tonumber(sequence) < tonumber(other_sequence)
end

if owed_count > 0 then
  for _, owed in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[2])) do
    local line = redis.call('XRANGE', KEYS[1], owed[1], owed[1])[1]
    if line then add(line[2][2]) else sure = false end
  end
end
-- A look at the newest line takes a fifth of a search for where the lines begin that are owed, mostly none.
if redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1] ~= delivered then
  -- Lines were trimmed from a full feed only; trimmed before a projector had them, they name nothing.
  if lines >= tonumber(ARGV[2]) and before(delivered, redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1]) then
    sure = false
  end
  for _, line in ipairs(redis.call('XRANGE', KEYS[1], '(' .. delivered, '+')) do add(line[2][2]) end
end
return {sure and 1 or delivered ~= '0-0' and 2 or 0, fields, ahead}
