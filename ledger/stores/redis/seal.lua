#!lua
-- Put a stub in the place of a stream that ends with the entry the stub names, or of an older stub.
--
-- KEYS  1 stream   2 the stub before it is in its place   3 due (sorted set of sessions)   4 feed
--       5 the mark of a file that takes no stubs any more, as `close_file.lua` sets it
-- ARGV  1, 2 the stub: its seal and its file   3, 4 the older one, '' of a stream   5 id of the last entry
--       6 stream name   7 its id   8 feed length   9 latest time at which it may be put (ms): who removes a file relies on it
--       10 wake-up channel where an older stub has another last entry, else ''
--
-- Answers 1 done (also when this very stub was there before: a lost answer), 0 something else is there, the stream has
-- gone on, or it is too late for this file.
--
-- Everything before the RENAME or the last HSET, which writes both fields at once, changes nothing that a reader knows.
-- After it nothing may fail: hints go through pcall.

local stream, beside = KEYS[1], KEYS[2]
local held = redis.pcall('HMGET', stream, 'seal', 'file')
if not held.err and held[1] == ARGV[1] and held[2] == ARGV[2] then return 1 end
local from_stub = ARGV[3] ~= ''
if from_stub then
  if held.err or held[1] ~= ARGV[3] or held[2] ~= ARGV[4] then return 0 end
else
  if not held.err then return 0 end
  local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  if last.err or not last[1] or last[1][1] ~= ARGV[5] then return 0 end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[9]) then return 0 end
if redis.call('EXISTS', KEYS[5]) == 1 then return 0 end

local version = string.match(ARGV[5], '%-(%d+)$')
if from_stub then
  redis.call('HSET', stream, 'seal', ARGV[1], 'file', ARGV[2])
  if ARGV[10] ~= '' then
    redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', ARGV[8], '*', 's', ARGV[6], 'v', version)
    redis.pcall('SPUBLISH', ARGV[10], ARGV[6] .. '\n' .. ARGV[5])
  end
  return 1
end
redis.call('HSET', beside, 'seal', ARGV[1], 'file', ARGV[2])
local put = redis.pcall('RENAME', beside, stream)
if put.err then
  redis.call('HDEL', beside, 'seal', 'file')
  return put
end
redis.pcall('ZREM', KEYS[3], ARGV[7])
redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', ARGV[8], '*', 's', ARGV[6], 'v', version, 'm', '1')
return 1
