#!lua
-- Compare-and-append: N events after exactly the entry the writer saw last, or none of them.
--
-- KEYS  1 stream   2 due (sorted set of sessions)   3 feed (stream of "this stream has reached this version")
-- ARGV  1, 2 ms and version of the entry seen last (0, 0: none)
--       3, 4 first and last millisecond that the entries may bear ('' = unbounded)
--       5, 6 what to do with the due hint: '' nothing, 'at' / 'in' a time / a duration (inf: never), 'no' remove
--       7 stream name for hints, `session:<id>` where there is such a hint   8 wake-up channel
--       9... payloads
--
-- Answers  {1, now, ms}                      appended, the entries bear ms
--          {0, now, last id, entries}        conflict: what the writer has not seen, or the first page of it
--          {-1, now, last id}                the entry seen last is not in the stream
--          {2, now, ms}                      outside the window: the entries would have borne ms
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

local wake_up, longest = name, #name + inline_limit
for i = 9, #ARGV do
  version = version + 1
  local id = ms .. '-' .. version
  redis.call('XADD', stream, id, 'd', ARGV[i])
  if #wake_up <= longest then wake_up = wake_up .. '\n' .. id .. '\n' .. ARGV[i] end
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
return {1, now, ms}
