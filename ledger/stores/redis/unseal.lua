#!lua
-- Put a stream's entries in the place of its stub, if the stub is still the given one.
--
-- KEYS  1 stream   2 copy, made by `unseal_copy.lua`   3 due (sorted set of sessions)   4 feed
-- ARGV  1, 2 stub: its seal and its file   3 id of the stream's last entry   4 payload of that entry
--       5 number of entries   6 due hint: '' none, else a time (inf: never)   7 stream name   8 its id
--       9 wake-up channel   10 feed length
--
-- Answers  1 done (also when the stream is there with that entry: a lost answer, or another process was first)
--          0 something else is there: another stub, another history, or nothing
--          2 the copy is not complete (or gone): write it again
--
-- No right to overwrite a key, or to rename a stream away, is needed: the stub goes with its fields, and RENAMENX takes
-- the copy to a free name.

local stream, copy = KEYS[1], KEYS[2]
local stub = redis.pcall('HMGET', stream, 'seal', 'file')
if stub.err then
  local found = redis.pcall('XRANGE', stream, ARGV[3], ARGV[3])
  if found.err or not found[1] then return 0 end
  return found[1][2][1] == 'd' and found[1][2][2] == ARGV[4] and 1 or 0
end
if stub[1] ~= ARGV[1] or stub[2] ~= ARGV[2] or #redis.call('HGETALL', stream) ~= 4 then return 0 end

local last = redis.call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
if not last or last[1] ~= ARGV[3] or redis.call('XLEN', copy) ~= tonumber(ARGV[5]) then return 2 end
redis.call('RENAMENX', copy, stream) -- does nothing yet, but is refused here to a user without the right
redis.call('PERSIST', copy)
redis.call('HDEL', stream, 'seal', 'file')
redis.call('RENAMENX', copy, stream)

if ARGV[6] ~= '' then redis.pcall('ZADD', KEYS[3], ARGV[6], ARGV[8]) end
local version = string.match(ARGV[3], '%-(%d+)$')
redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', ARGV[10], '*', 's', ARGV[7], 'v', version, 'm', '1')
redis.pcall('SPUBLISH', ARGV[9], ARGV[7] .. '\n' .. ARGV[3])
return 1
