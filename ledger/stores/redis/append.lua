#!lua
-- Compare-and-append: N events after exactly the entry the writer saw last, or none of them.
--
-- KEYS  1 stream   2 due (sorted set of sessions)   3 feed (stream of "this stream has reached this version")
--       4 with entries that allow something: freeze flag (hash: server that verified it, entry of the stream of freezes,
--         a field for each frozen reach)
--       last, where the writer assumes who is present: leases of the session (sorted set by end)
-- ARGV  1, 2 ms and version of the entry seen last (0, 0: none)
--       3, 4 first and last millisecond that the entries may bear ('' = unbounded)
--       5, 6 what to do with the due hint: '' nothing, 'at' / 'in' a time / a duration (inf: never), 'no' remove
--       7 stream name for hints, `session:<id>` where there is such a hint   8 wake-up channel
--       9 '', or for entries that allow something `<server> p:<project>`: the id that the server of this connection
--         had within the last second ('' = unknown), and the project
--       10 '', or the number of the leases that the writer assumes, and each of them between zero bytes
--       11... of each event its payload and its content ('': it has none)
--
-- Answers  {1, now, ms, server?}             appended, the entries bear ms; the server's id where it was looked up
--          {0, now, last id, entries}        conflict: what the writer has not seen, or the first page of it
--          {-1, now, last id}                the entry seen last is not in the stream
--          {2, now, ms}                      outside the window: the entries would have borne ms
--          {3, now, entry, freeze}           frozen, as of this entry of the stream of freezes
--          {4, now, server}                  the flag was not compared with that stream since the server took over
--          {5, now, leases?}                 other leases than assumed; none are named where the key is unreadable
--
-- Everything before the first XADD may refuse. After it nothing may fail, because a script does not roll back:
-- hints go through pcall. Numbers: Lua's %.14g is exact for milliseconds and versions.

-- As in ledger/core/limits.py. Constants here, because every argument is read and copied anew.
local conflict_tail, feed_length, inline_limit = 256, 1000, 1024

local stream, name = KEYS[1], ARGV[7]
local seen = ARGV[1] .. '-' .. ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'

if last_id ~= seen then
  if ARGV[2] ~= '0' and #redis.call('XRANGE', stream, seen, seen) == 0 then
    return {-1, now, last_id}
  end
  return {0, now, last_id, redis.call('XRANGE', stream, '(' .. seen, '+', 'COUNT', conflict_tail)}
end
if not last and redis.call('EXISTS', stream) == 1 then
  return {-1, now, last_id} -- emptied: the next version would be used a second time
end

local version = tonumber(ARGV[2])
local ms = math.max(now, tonumber(ARGV[1]))
if (ARGV[3] ~= '' and ms < tonumber(ARGV[3])) or (ARGV[4] ~= '' and ms > tonumber(ARGV[4])) then
  return {2, now, ms}
end
if ARGV[10] ~= '' then
  local leases = redis.pcall('ZRANGE', KEYS[#KEYS], '(' .. now, '+inf', 'BYSCORE')
  if leases.err then return {5, now} end
  local alike = #leases == tonumber(string.match(ARGV[10], '^%d+'))
  for _, lease in ipairs(leases) do
    alike = alike and string.find(ARGV[10], '\0' .. lease .. '\0', 1, true)
  end
  if not alike then return {5, now, leases} end
end
local told
if ARGV[9] ~= '' then
  local known, reach = string.match(ARGV[9], '^(%x*) (.*)$')
  local flag = redis.call('HMGET', KEYS[4], 'server', 'all', reach, 'at')
  if known == '' or flag[1] ~= known then
    -- New after each start and promotion: a replica that took over, or a restored server, may lack a freeze.
    told = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
    if flag[1] ~= told then return {4, now, told} end
  end
  if flag[2] or flag[3] then return {3, now, flag[4], flag[2] or flag[3]} end
end

local wake_up, longest = name, #name + inline_limit
for i = 11, #ARGV, 2 do
  version = version + 1
  local id, payload, content = ms .. '-' .. version, ARGV[i], ARGV[i + 1]
  if content == '' then
    redis.call('XADD', stream, id, 'd', payload)
  else
    redis.call('XADD', stream, id, 'd', payload, 'x', content)
  end
  if #wake_up <= longest then wake_up = wake_up .. '\n' .. id .. '\n' .. payload .. '\n' .. content end
end

if ARGV[5] ~= '' then
  local session = string.sub(name, #'session:' + 1)
  if ARGV[5] == 'at' then
    redis.pcall('ZADD', KEYS[2], ARGV[6], session)
  elseif ARGV[5] == 'in' then
    redis.pcall('ZADD', KEYS[2], ms + tonumber(ARGV[6]), session)
  elseif ARGV[5] == 'no' then
    redis.pcall('ZREM', KEYS[2], session)
  end
end
redis.pcall('XADD', KEYS[3], 'MAXLEN', '=', feed_length, '*', 's', name, 'v', version)
if #wake_up > longest then wake_up = name .. '\n' .. ms .. '-' .. version end
redis.pcall('SPUBLISH', ARGV[8], wake_up)
return {1, now, ms, told}
