#!lua
-- Change a stream's views and its checkpoint in one step, if the checkpoint is where the projector read it.
--
-- KEYS  1 checkpoints (hash)   2... views
-- ARGV  1 stream name   2 expected checkpoint   3 new checkpoint   then, a change each:
--       index of the view in KEYS, kind ('hash', 'sorted', 'count', 'latest'), field, value ('' and a flag '1' = remove)
--
-- Answers 1 done, 0 another projector was first.

if (redis.call('HGET', KEYS[1], ARGV[1]) or '0') ~= ARGV[2] then return 0 end
for i = 4, #ARGV, 5 do
  local view, kind, field = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]
  local value, remove = ARGV[i + 3], ARGV[i + 4] == '1'
  if kind == 'count' then
    redis.call('HINCRBY', view, field, value)
  elseif kind == 'latest' then
    local held = redis.call('HGET', view, field)
    if not held or tonumber(held) < tonumber(value) then redis.call('HSET', view, field, value) end
  elseif kind == 'sorted' then
    if remove then redis.call('ZREM', view, field) else redis.call('ZADD', view, value, field) end
  elseif remove then
    redis.call('HDEL', view, field)
  else
    redis.call('HSET', view, field, value)
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
