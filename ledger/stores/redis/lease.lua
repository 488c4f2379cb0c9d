#!lua
-- Renew or end the lease of a client at a place, perhaps only if nobody else has one there.
--
-- KEYS  1 leases (sorted set by their end)
-- ARGV  1 client id   2 its member: the id, LF, the name   3 duration (ms), 0 ends it   4 '1': only if nobody else is there
--
-- Answers  {1 done, 0 another client is there; the server's time (ms)}

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local place, duration = KEYS[1], tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', place, '-inf', now)
local renamed = {}
for _, member in ipairs(redis.call('ZRANGE', place, 0, -1)) do
  if string.match(member, '^[^\n]*') == ARGV[1] then
    if duration == 0 or member ~= ARGV[2] then renamed[#renamed + 1] = member end
  elseif ARGV[4] == '1' then
    return {0, now}
  end
end
for _, member in ipairs(renamed) do redis.call('ZREM', place, member) end
if duration > 0 then
  redis.call('ZADD', place, now + duration, ARGV[2])
  -- A key lives at least as long as its longest lease; GT alone has no effect on a key without a TTL.
  redis.call('PEXPIRE', place, duration * 2, 'NX')
  redis.call('PEXPIRE', place, duration * 2, 'GT')
end
return {1, now}
