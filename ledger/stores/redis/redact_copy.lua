#!lua
-- Copy the next entries of a stream under their own ids, without the content (`x`) of those that are redacted.
--
-- KEYS  1 stream   2 copy, which `redact.lua` puts in the stream's place   3 lease: the only copy that may do that
-- ARGV  1 id of the copy's last entry as the caller knows it ('0-0': none)
--       2 last version to copy   3 most entries   4 bytes after which it stops   5 time to live of the copy, ms
--       6 holder of the lease   7... versions among the next ones that lose their content
--
-- Answers  the id of the copy's last entry, or '' while another copy has the lease. A repeated call, whose first reply
--          was lost, copies nothing.
--
-- A copy that nobody finishes is never read, and ends with its time to live. The lease ends with it: of two rewrites at
-- once, the later would bring back what the earlier took out.

local stream, copy, lease = KEYS[1], KEYS[2], KEYS[3]
local holder = redis.call('GET', lease)
if holder and holder ~= ARGV[6] then return '' end
if not holder then redis.call('UNLINK', copy) end
redis.call('SET', lease, ARGV[6], 'PX', ARGV[5])
local last = redis.call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'
if last_id ~= ARGV[1] then return last_id end

local redacted = {}
for i = 7, #ARGV do redacted[ARGV[i]] = true end
local until_version, bytes = tonumber(ARGV[2]), 0
for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. last_id, '+', 'COUNT', ARGV[3])) do
  local id, fields = entry[1], entry[2]
  local version = string.match(id, '%-(%d+)$')
  if tonumber(version) > until_version or bytes > tonumber(ARGV[4]) then break end
  if redacted[version] and #fields == 4 and fields[3] == 'x' then
    redis.call('XADD', copy, id, fields[1], fields[2])
  else
    redis.call('XADD', copy, id, unpack(fields))
  end
  for _, field in ipairs(fields) do bytes = bytes + #field end
  last_id = id
end
redis.call('PEXPIRE', copy, ARGV[5])
return last_id
