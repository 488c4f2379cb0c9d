#!lua
-- Append all entries under their original ids, directly after the given one, or none of them.
--
-- KEYS  1 stream   2 due (sorted set of sessions)   3 feed
-- ARGV  1 id of the entry before ('0-0': the stream must not exist)
--       2 due hint: '' leaves it as it is, else a time (inf: never)   3 stream name   4 its id   5 wake-up channel
--       6 feed length   7... id, payload and content ('': none) of each entry
--
-- Answers 1 done (also when it was done before and the answer was lost), 0 the stream ends elsewhere.

local stream = KEYS[1]
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'
local new_last = ARGV[#ARGV - 2]
if last_id ~= ARGV[1] or (not last and redis.call('EXISTS', stream) == 1) then
  if last_id == new_last and last[2][1] == 'd' and last[2][2] == ARGV[#ARGV - 1] then return 1 end
  return 0
end
for i = 7, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('XADD', stream, ARGV[i], 'd', ARGV[i + 1])
  else
    redis.call('XADD', stream, ARGV[i], 'd', ARGV[i + 1], 'x', ARGV[i + 2])
  end
end

if ARGV[2] ~= '' then redis.pcall('ZADD', KEYS[2], ARGV[2], ARGV[4]) end
local version = string.match(new_last, '%-(%d+)$')
redis.pcall('XADD', KEYS[3], 'MAXLEN', '=', ARGV[6], '*', 's', ARGV[3], 'v', version)
redis.pcall('SPUBLISH', ARGV[5], ARGV[3] .. '\n' .. new_last)
return 1
