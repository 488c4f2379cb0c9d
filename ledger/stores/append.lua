#!lua
-- Compare-and-append: N events after exactly the entry the writer saw last, or none of them.
--
-- KEYS  1 stream   2 due (sorted set of sessions)   3 feed (stream of "this stream has reached this version")
-- ARGV  1, 2 ms and version of the entry seen last (0, 0: none)
--       3, 4 first and last millisecond that the entries may bear ('' = unbounded)
--       5 how many entries a conflict returns
--       6, 7 what to do with the due hint: '' nothing, 'at' / 'in' a time / a duration (inf: never), 'no' remove
--       8 stream name for hints   9 session id   10 wake-up channel   11 feed length   12 inline limit in bytes
--       13... payloads
--
-- Answers  {1, now, ms}                      appended, the entries bear ms
--          {0, now, last id, entries}        conflict: what the writer has not seen, or the first page of it
--          {-1, now, last id}                the entry seen last is not in the stream
--          {2, now, ms}                      outside the window: the entries would have borne ms
--
-- Everything before the first XADD may refuse. After it nothing may fail, because a script does not roll back:
-- hints go through pcall. Numbers: Lua's %.14g is exact for milliseconds and versions.

local stream = KEYS[1]
local seen = ARGV[1] .. '-' .. ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
local last_id = last and last[1] or '0-0'

if last_id ~= seen then
  if ARGV[2] ~= '0' and #redis.call('XRANGE', stream, seen, seen) == 0 then
    return {-1, now, last_id}
  end
  return {0, now, last_id, redis.call('XRANGE', stream, '(' .. seen, '+', 'COUNT', ARGV[5])}
end
if not last and redis.call('EXISTS', stream) == 1 then
  return {-1, now, last_id} -- emptied by somebody: the next version would be used a second time
end

local version = tonumber(ARGV[2])
local ms = math.max(now, tonumber(ARGV[1]))
if (ARGV[3] ~= '' and ms < tonumber(ARGV[3])) or (ARGV[4] ~= '' and ms > tonumber(ARGV[4])) then
  return {2, now, ms}
end

local first_payload = 13
local wake_up = ARGV[8]
local inline = ''
for i = first_payload, #ARGV do
  version = version + 1
  local id = ms .. '-' .. version
  redis.call('XADD', stream, id, 'd', ARGV[i])
  if #inline <= tonumber(ARGV[12]) then inline = inline .. '\n' .. id .. '\n' .. ARGV[i] end
end

if ARGV[6] == 'at' then
  redis.pcall('ZADD', KEYS[2], ARGV[7], ARGV[9])
elseif ARGV[6] == 'in' then
  redis.pcall('ZADD', KEYS[2], ms + tonumber(ARGV[7]), ARGV[9])
elseif ARGV[6] == 'no' then
  redis.pcall('ZREM', KEYS[2], ARGV[9])
end
redis.pcall('XADD', KEYS[3], 'MAXLEN', '=', ARGV[11], '*', 's', ARGV[8], 'v', version)
if #inline > tonumber(ARGV[12]) then inline = '\n' .. ms .. '-' .. version end
redis.pcall('SPUBLISH', ARGV[10], wake_up .. inline)
return {1, now, ms}
