#!lua
-- Set the freeze flag of a partition to the freezes as of an entry of the stream of freezes, unless it is of a later one.
--
-- KEYS  1 freeze flag (hash, as in append.lua)
-- ARGV  1, 2 ms and version of the entry (0, 0: none)
--       3 the server whose flag the caller has compared with the stream, '' if none
--       4... name and text of each frozen reach
--
-- Answers  the entry that the flag is of now.
--
-- A flag of a later entry than the stream's last one is the only witness of a freeze that the stream has lost: it stays.

local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local had = redis.call('HMGET', KEYS[1], 'at', 'server')
local verified = had[2] == server or ARGV[3] == server
local ms, version = string.match(had[1] or '0-0', '^(%d+)-(%d+)$')
local given_ms, given_version = tonumber(ARGV[1]), tonumber(ARGV[2])
ms, version = tonumber(ms), tonumber(version)

local at = ARGV[1] .. '-' .. ARGV[2]
if ms > given_ms or (ms == given_ms and version > given_version) then
  at = had[1]
else
  local held = redis.call('HGETALL', KEYS[1])
  for i = 1, #held, 2 do redis.call('HDEL', KEYS[1], held[i]) end
  for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('HSET', KEYS[1], 'at', at, 'server', verified and server or '')
return at
