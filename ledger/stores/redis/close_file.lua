#!lua
-- Mark a file of the archive, for the streams of a partition: `seal.lua` puts no stub that names it.
--
-- KEYS  1 the mark   ARGV  1 time to live of the mark, ms: longer than a file takes stubs at all
--
-- Answers 1.

redis.call('PEXPIRE', KEYS[1], ARGV[1]) -- a user without the right is refused before anything is written
redis.call('HSET', KEYS[1], 'closed', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
