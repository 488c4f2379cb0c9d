#!lua
-- Correct a deadline hint, if it still is what the corrector saw, and the stream still ends where he saw it end: one that
-- has lost entries since (another server took over) may have something due after all.
-- KEYS 1 due   2 stream   ARGV 1 session, 2 score seen, 3 new score ('' = remove), 4 last entry seen ('0-0' = none)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if (last and last[1] or '0-0') ~= ARGV[4] then return 0 end
if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return 1
