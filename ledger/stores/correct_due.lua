#!lua
-- Correct a deadline hint, if it still is what the corrector saw.
-- KEYS 1 due   ARGV 1 session, 2 score seen, 3 new score ('' = remove)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return 1
