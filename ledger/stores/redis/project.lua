#!lua
-- Change the views and checkpoints of streams in one step, if all checkpoints are where the projector read them.
--
-- KEYS  1 checkpoints   2... views
-- ARGV  1 number of streams   then of each: name, expected checkpoint, new one, where 0-0 is none   then groups of
--       changes: index of the view in KEYS, command, number of arguments, the arguments.
--       HSET and ZADD take pairs, HDEL and ZREM fields, HINCRBY pairs one by one; 'latest' sets a number if it is higher.
--
-- Answers 1 done, 0 another projector was first.

local AT_ONCE = 1000  -- arguments of one command; Lua's stack holds about 8,000

local streams = tonumber(ARGV[1])
for i = 2, 3 * streams, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '0-0') ~= ARGV[i + 1] then return 0 end
end
local at = 3 * streams + 2
while at <= #ARGV do
  local view, command = KEYS[tonumber(ARGV[at])], ARGV[at + 1]
  local first, last = at + 3, at + 2 + tonumber(ARGV[at + 2])
  if command == 'HINCRBY' then
    for i = first, last, 2 do redis.call('HINCRBY', view, ARGV[i], ARGV[i + 1]) end
  elseif command == 'latest' then
    for i = first, last, 2 do
      local held = redis.call('HGET', view, ARGV[i])
      if not held or tonumber(held) < tonumber(ARGV[i + 1]) then redis.call('HSET', view, ARGV[i], ARGV[i + 1]) end
    end
  else
    for i = first, last, AT_ONCE do redis.call(command, view, unpack(ARGV, i, math.min(i + AT_ONCE - 1, last))) end
  end
  at = last + 1
end
for i = 2, 3 * streams, 3 do
  if ARGV[i + 1] ~= ARGV[i + 2] then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
end
return 1
