#!lua
-- Put a stub in the place of a stream, if the stream still ends with the entry that the stub names.
--
-- KEYS  1 stream   2 the stub before it is in its place   3 due (sorted set of sessions)   4 feed
--       5 the mark of a file that takes no stubs any more, as `close_file.lua` sets it
-- ARGV  1 id of the stream's last entry   2, 3 stub: its seal and its file   4 stream name   5 its id   6 feed length
--       7 latest time at which it may be put (ms): who removes a file relies on it
--
-- Answers 1 done (also when this very stub was there before: a lost answer), 0 the stream has gone on, or is not there,
-- or it is too late for this file.
--
-- Everything before the RENAME changes nothing that a reader knows. After it nothing may fail: hints go through pcall.

local stream, beside = KEYS[1], KEYS[2]
local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
if last.err then
  local held = redis.pcall('HMGET', stream, 'seal', 'file')
  return not held.err and held[1] == ARGV[2] and held[2] == ARGV[3] and 1 or 0
end
if not last[1] or last[1][1] ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[7]) then return 0 end
if redis.call('EXISTS', KEYS[5]) == 1 then return 0 end

redis.call('HSET', beside, 'seal', ARGV[2], 'file', ARGV[3])
local put = redis.pcall('RENAME', beside, stream)
if put.err then
  redis.call('HDEL', beside, 'seal', 'file')
  return put
end

redis.pcall('ZREM', KEYS[3], ARGV[5])
local version = string.match(ARGV[1], '%-(%d+)$')
redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', ARGV[6], '*', 's', ARGV[4], 'v', version, 'm', '1')
return 1
