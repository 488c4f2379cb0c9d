#!lua
-- Put the copy of a stream, which lacks the redacted content, in the stream's place, with one more event; or do nothing.
--
-- KEYS  1 stream   2 copy, made by `redact_copy.lua`   3 its lease   4 feed
-- ARGV  1, 2 ms and version of the stream's last entry as the caller saw it
--       3 last version that loses its content: all entries up to it must be in the copy
--       4 most entries that are copied here   5 stream name   6 wake-up channel
--       7, 8 payload and content of the event   9 holder of the lease
--
-- Answers  {1, now, ms}                  written, the event bears ms
--          {0, now, last id, entries}    conflict: what the caller has not seen, or the first page of it
--          {-1, now, last id}            the entry seen last is not in the stream
--          {5, now, last id of the copy} the copy is not complete enough (or gone): copy on
--
-- Everything before the RENAME changes the copy alone (no reader knows it). After it nothing may fail: hints go through pcall.

-- As in ledger/core/limits.py.
local conflict_tail, feed_length, inline_limit = 256, 1000, 1024

local stream, copy, name = KEYS[1], KEYS[2], ARGV[5]
local seen = ARGV[1] .. '-' .. ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'
if last_id ~= seen then
  if #redis.call('XRANGE', stream, seen, seen) == 0 then return {-1, now, last_id} end
  return {0, now, last_id, redis.call('XRANGE', stream, '(' .. seen, '+', 'COUNT', conflict_tail)}
end

if redis.call('GET', KEYS[3]) ~= ARGV[9] then
  redis.call('UNLINK', copy) -- another rewrite may have been made since
  return {5, now, '0-0'}
end
local copied = redis.call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
local copied_id = copied and copied[1] or '0-0'
local missing = redis.call('XLEN', stream) - redis.call('XLEN', copy)
if tonumber(string.match(copied_id, '%-(%d+)$')) < tonumber(ARGV[3]) or missing > tonumber(ARGV[4]) then
  return {5, now, copied_id}
end
for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. copied_id, '+')) do
  redis.call('XADD', copy, entry[1], unpack(entry[2]))
  missing = missing - 1
end
if missing ~= 0 then return {5, now, copied_id} end

local ms, version = math.max(now, tonumber(ARGV[1])), tonumber(ARGV[2]) + 1
local id = ms .. '-' .. version
if ARGV[8] == '' then
  redis.call('XADD', copy, id, 'd', ARGV[7])
else
  redis.call('XADD', copy, id, 'd', ARGV[7], 'x', ARGV[8])
end
redis.call('PERSIST', copy)
redis.call('RENAME', copy, stream)
redis.pcall('DEL', KEYS[3])

redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', feed_length, '*', 's', name, 'v', version)
local wake_up = name .. '\n' .. id .. '\n' .. ARGV[7] .. '\n' .. ARGV[8]
if #wake_up > #name + inline_limit then wake_up = name .. '\n' .. id end
redis.pcall('SPUBLISH', ARGV[6], wake_up)
return {1, now, ms}
