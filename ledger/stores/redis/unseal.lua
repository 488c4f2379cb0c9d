#!lua
-- Put a stream's entries in the place of its stub, if the stub is still the given one.
--
-- KEYS  1 stream   2 copy, made by `unseal_copy.lua`   3 due (sorted set of sessions)   4 feed
-- ARGV  1 stub   2 id of the stream's last entry   3 payload of that entry   4 number of entries
--       5 due hint: '' none, else a time (inf: never)   6 stream name   7 its id   8 wake-up channel   9 feed length
--
-- Answers  1 done (also when the stream is there with that entry: a lost answer, or another process was first)
--          0 something else is there: another stub, another history, or nothing
--          2 the copy is not complete (or gone): write it again
--
-- No right to overwrite a key, or to rename a stream away, is needed: the stub goes with its field, and RENAMENX takes
-- the copy to a free name.

local stream, copy = KEYS[1], KEYS[2]
local stub = redis.pcall('HGETALL', stream)
if stub.err then
  local found = redis.pcall('XRANGE', stream, ARGV[2], ARGV[2])
  if found.err or not found[1] then return 0 end
  return found[1][2][1] == 'd' and found[1][2][2] == ARGV[3] and 1 or 0
end
if #stub ~= 2 or stub[1] ~= 'seal' or stub[2] ~= ARGV[1] then return 0 end

local last = redis.call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
if not last or last[1] ~= ARGV[2] or redis.call('XLEN', copy) ~= tonumber(ARGV[4]) then return 2 end
redis.call('RENAMENX', copy, stream) -- does nothing yet, but is refused here to a user without the right
redis.call('PERSIST', copy)
redis.call('HDEL', stream, 'seal')
redis.call('RENAMENX', copy, stream)

if ARGV[5] ~= '' then redis.pcall('ZADD', KEYS[3], ARGV[5], ARGV[7]) end
local version = string.match(ARGV[2], '%-(%d+)$')
redis.pcall('XADD', KEYS[4], 'MAXLEN', '=', ARGV[9], '*', 's', ARGV[6], 'v', version)
redis.pcall('SPUBLISH', ARGV[8], ARGV[6] .. '\n' .. ARGV[2])
return 1
