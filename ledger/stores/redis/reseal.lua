#!lua
-- Put another stub in the place of a stub, if it is still the given one.
--
-- KEYS  1 stream   2 feed   3 the mark of a file that takes no stubs any more, as `close_file.lua` sets it
-- ARGV  1, 2 the stub that is there: its seal and its file   3, 4 the new one   5 latest time at which it may be put (ms)
--       6 stream name   7 id of the new last entry, '' if it stays   8 wake-up channel   9 feed length
--
-- Answers 1 done (also when the new stub was there before: a lost answer), 0 something else is there, or it is too late.
--
-- The HSET writes both fields at once. After it nothing may fail: hints go through pcall.

local stream = KEYS[1]
local held = redis.pcall('HMGET', stream, 'seal', 'file')
if held.err then return 0 end
if held[1] == ARGV[3] and held[2] == ARGV[4] then return 1 end
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then return 0 end
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end

redis.call('HSET', stream, 'seal', ARGV[3], 'file', ARGV[4])

if ARGV[7] ~= '' then
  local version = string.match(ARGV[7], '%-(%d+)$')
  redis.pcall('XADD', KEYS[2], 'MAXLEN', '=', ARGV[9], '*', 's', ARGV[6], 'v', version)
  redis.pcall('SPUBLISH', ARGV[8], ARGV[6] .. '\n' .. ARGV[7])
end
return 1
