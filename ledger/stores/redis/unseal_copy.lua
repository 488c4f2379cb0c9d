#!lua
-- Write the next entries of a sealed stream beside its stub, under their own ids.
--
-- KEYS  1 copy, which `unseal.lua` puts in the stub's place
-- ARGV  1 id of the copy's last entry as the caller knows it ('0-0': none)   2 time to live of the copy, ms
--       3... id, payload and content ('': none) of each entry
--
-- Answers  the id of the copy's last entry. A repeated call, whose first reply was lost, writes nothing.
--
-- A copy that nobody finishes is never read, and ends with its time to live.

local copy = KEYS[1]
local last = redis.call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'
if last_id ~= ARGV[1] then return last_id end
redis.call('PEXPIRE', copy, ARGV[2]) -- a user without the right is refused before anything is written
for i = 3, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    last_id = redis.call('XADD', copy, ARGV[i], 'd', ARGV[i + 1])
  else
    last_id = redis.call('XADD', copy, ARGV[i], 'd', ARGV[i + 1], 'x', ARGV[i + 2])
  end
end
redis.call('PEXPIRE', copy, ARGV[2])
return last_id
