#!lua
-- Correct a deadline hint if it is unchanged since it was read, and the stream still ends with the same entry: after a
-- failover that lost entries, a request may be pending again. Nothing is due in a sealed stream: its hint is removed.
-- KEYS 1 due   2 stream
-- ARGV 1 session   2 score seen ('' = none)   3 new score ('' = remove)   4 last entry seen ('0-0' = none)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if tonumber(score or '') ~= tonumber(ARGV[2]) then return 0 end
local last = redis.pcall('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
if last.err then
  if ARGV[3] ~= '' or not redis.call('HGET', KEYS[2], 'seal') then return last end
elseif (last[1] and last[1][1] or '0-0') ~= ARGV[4] then
  return 0
end
if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return 1
