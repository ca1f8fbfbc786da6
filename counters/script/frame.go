package script

// gate begins every script of New. By rule 1 nothing is decided without an epoch. The
// epoch counts only on the server on which it was installed: a server that started again may have
// older data, and one that was a replica for a while has lost what it alone had. A place that an older
// version built has no history to compare. A lane passes the run of the server as the last argument,
// since its connection leads to no other run. Without a lane the script asks the server, since
// go-redis repeats a command on a new connection with the arguments for the old one.
//
// The records of a place are several keys. Its meta has their number, so that the next call notices
// that one was evicted or deleted: the place is then not built, as if all were lost.
//
// A server at its maxmemory refuses a write that may need more memory, unless the script has written
// before; and Redis undoes no write. So the first write of a call is one that needs no memory (shrink) or
// one that the server may refuse (grow): a call whose write is refused has written nothing. A request
// that fails after it has written, for example by a key of another type, removes the epochs of all
// places of the call.
//
// A script decides the requests of a call one after the other, each as if it had come alone, so that
// they share the fixed cost of a call. Each request is about one place (a pool, a bucket or a site),
// and may have a second place. In the parts of a script, KEYS, epoch and paused belong to the place
// that the script has entered.
//
//	KEYS -> those of the first place, then those of the second, …; the first of each
//	        is meta: epoch, server, history, seq, paused, keys, token, since, tokenServer, tokenHistory
//	ARGV[1] -> number of places
//	then for each place the number of its keys
//	then for each request the number of its place, of its second place or 0, n, its n arguments
//	at last the run id of the server, '' if the script has to ask for it
//
//	Returns for each request what the script returns, {'NOTBUILT'} if one of its places is not built, or
//	{'FAILED', why} after an error before any write of the request; then, if a place has a fenced epoch, one list
//	of the meta key and the epoch of each such place
const gate = ServerID + `
local given, requests, places = KEYS, ARGV, {}
local KEYS, epoch, paused
local joined, writes, writable = false, 0, false

local next_key = 1
for number = 1, tonumber(requests[1]) do
  local place = {wrote = {}}
  for i = 1, tonumber(requests[number + 1]) do
    place[i], next_key = given[next_key], next_key + 1
  end
  places[number] = place
end

-- Returns how many of the keys of the place's records exist; nil if the user has no
-- right to ask.
local function count_keys(place)
  local n = redis.pcall('EXISTS', unpack(place, 2))
  return type(n) == 'number' and n or nil
end

local function depose(place)
  redis.call('HDEL', place[1], 'epoch', 'server', 'history')
  place.built = false
  place.head[1] = false
end

-- Returns whether the place is built.
local function enter(number)
  local place = places[number]
  local head = place.head
  if not head then
    head = redis.call('HMGET', place[1], 'epoch', 'server', 'paused', 'seq', 'history', 'keys')
    place.head, place.sequence, place.stored = head, tonumber(head[4] or '0'), tonumber(head[4] or '0')
    place.built = head[1] and head[2] == server and (not head[5] or head[5] == history) and trusted(head[1])
    local recorded = tonumber(head[6] or '0')
    if place.built then
      place.count = count_keys(place)
      if (place.count or recorded) < recorded then depose(place) end
    end
  end
  KEYS, epoch, paused = place, head[1], head[3] == '1'
  return place.built
end

local function num(n) return string.format('%d', n) end

local function written() writes, KEYS.changed = writes + 1, true end

-- Writes what may need memory. Redis refuses the first such write if its memory is
-- full, and the script then ends before it has written anything.
local function grow(...)
  if not writable then
    redis.call('HSET', KEYS[1], 'seq', num(KEYS.sequence))
    writable, KEYS.stored = true, KEYS.sequence
  end
  written()
  if ... then return redis.call(...) end
end

local function shrink(...)
  writable, KEYS.shrunk = true, true
  written()
  return redis.call(...)
end

-- What requests set in a hash is written with one command after all are decided, since
-- a command costs the server more than a field does. Until then get returns it from here.
local function unwritten(number, field)
  local wrote = KEYS.wrote[number]
  return wrote and wrote[field]
end

local function get(number, field)
  local value = unwritten(number, field)
  if value ~= nil then return value end
  return redis.call('HGET', KEYS[number], field)
end

-- A value of false deletes the field.
local function set(number, field, value)
  if value then grow() elseif not writable then shrink('HDEL', KEYS[number], field) else
    written()
    KEYS.shrunk = true
  end
  local wrote = KEYS.wrote[number]
  if not wrote then
    wrote = {}
    KEYS.wrote[number] = wrote
  end
  wrote[field] = value
end

local function raise_sequence(to) KEYS.sequence = to end

local function next_sequence()
  raise_sequence(KEYS.sequence + 1)
  return KEYS.sequence
end
`

// each ends a script: it calls the function decide for each request, and then writes the hash fields and sequences
// that the requests have changed.
const each = `
local function write(key, fields)
  local put, gone = {}, {}
  for field, value in pairs(fields) do
    if value then put[#put + 1], put[#put + 2] = field, value else gone[#gone + 1] = field end
  end
  for from = 1, #put, 1000 do redis.call('HSET', key, unpack(put, from, math.min(from + 999, #put))) end
  for from = 1, #gone, 1000 do redis.call('HDEL', key, unpack(gone, from, math.min(from + 999, #gone))) end
end

-- Lua takes no more than some 8,000 values from unpack.
local function slice(from, to)
  if to - from < 1000 then return {unpack(requests, from, to)} end
  local values = {}
  for i = from, to do values[i - from + 1] = requests[i] end
  return values
end

local function failed(why) return {'FAILED', type(why) == 'table' and why.err or tostring(why)} end

-- A request that failed between two writes leaves its places half written. Without their epochs, the next call
-- has them rebuilt.
local function suspect(why)
  for _, place in pairs(places) do
    if place.built then depose(place) end
  end
  return redis.error_reply('ERR it failed after it had written, the records are to be built anew: ' .. failed(why)[2])
end

local function finish(place)
  for number, fields in pairs(place.wrote) do write(place[number], fields) end
  local count = place.count
  if place.shrunk or count ~= #place - 1 then count = count_keys(place) or 0 end -- else all keys existed before, and nothing was deleted
  local keys = num(count)
  if keys ~= place.head[6] then redis.call('HSET', place[1], 'seq', num(place.sequence), 'keys', keys)
  elseif place.sequence ~= place.stored then redis.call('HSET', place[1], 'seq', num(place.sequence)) end
end

local answers, at = {}, 2 + tonumber(requests[1])
while at < #requests do
  local place, second, last = tonumber(requests[at]), tonumber(requests[at + 1]), at + 2 + tonumber(requests[at + 2])
  local answer
  if second > 0 and not enter(second) or not enter(place) then
    answer = {'NOTBUILT'}
  else
    local here, there, before, done = places[place], places[second], writes, nil
    local last_here, last_there = here.sequence, there and there.sequence
    done, answer = pcall(decide, slice(at + 3, last), place, second)
    if not done then
      if writes > before then return suspect(answer) end
      here.sequence = last_here
      if there then there.sequence = last_there end
      answer = failed(answer)
    elseif joined and type(answer) == 'table' then answer = table.concat(answer, '|') end
  end
  answers[#answers + 1], at = answer, last + 1
end
local in_force = {}
for _, place in pairs(places) do
  local head = place.head
  if place.changed then
    local done, why = pcall(finish, place)
    if not done then return suspect(why) end
  end
  if head and head[1] and fenced(head[1]) then in_force[#in_force + 1], in_force[#in_force + 2] = place[1], head[1] end
end
if #in_force > 0 then answers[#answers + 1] = in_force end
return answers
`

// Joined makes a script join its values to one text, which is cheaper for the server to send and for the client to
// read. It is for frequent scripts that return texts and small numbers.
const Joined = `joined = true
`

// ServerID sets server to the run id in the last argument, or asks the server if that is empty, and
// history to the replication history. Either is '-' if the server does not tell it. ServerID asks for
// the history at every call: a server that was a replica for a while has another history, although its
// connections stay open. A fenced epoch, one that begins with fenced-, is always trusted. Any other epoch is
// trusted only on a server without replicas and without a replication backlog: where there is a backlog there
// was a replica, which may be the master by now.
const ServerID = `
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
local function told(text, field)
  local at = string.find(text, field, 1, true)
  return at and string.match(text, '^%w+', at + #field) or '-'
end
local server = table.remove(ARGV)
if server == '' then server = told(info('server'), 'run_id:') end
local replication = info('replication')
local history = told(replication, 'master_replid:')

local function fenced(epoch) return string.sub(epoch, 1, 7) == 'fenced-' end
local function alone() return string.match(told(replication, 'connected_slaves:'), '^[0-]$') and told(replication, 'repl_backlog_active:') ~= '1' end
local function trusted(epoch) return fenced(epoch) or alone() end
`
