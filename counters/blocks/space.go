package blocks

// space is the part of the scripts on ranges that takes and frees blocks, as network.Space does in Go.
// Free space is stored as the fewest aligned blocks, by size and address, so that at most one look-up
// per size finds the smallest block with room in a CIDR. A block is a = first address and l = prefix
// length; its code is l * 2^32 + a.
//
//	KEYS[1] -> head, with the fields of a pool's meta
//	KEYS[2] -> sorted set of the codes of free blocks, by code
//	KEYS[3] -> hash code -> how often that block is held
//	KEYS[4] -> sorted set of the codes of held blocks, by first address
//	KEYS[5] -> hash cluster -> JSON list of its records
//	KEYS[6] -> hash code -> 1, blocks of other allocators
//	KEYS[7] -> hash, json -> JSON list of the parents by id: [id, a, l, a, l, …]
const space = `
local function addresses(l) return 2 ^ (32 - l) end
local function code(a, l) return string.format('%.0f', l * 4294967296 + a) end
local function around(a, l) return a - a % addresses(l) end -- the block of length l that a is in

local function put_free(a, l) grow('ZADD', KEYS[2], code(a, l), code(a, l)) end

-- Frees a block. Two free halves become one block, at most the parent.
local function join_free(a, l, to)
  while l > to do
    local n = addresses(l)
    local other = a % (2 * n) == 0 and a + n or a - n
    if shrink('ZREM', KEYS[2], code(other, l)) == 0 then break end
    a, l = math.min(a, other), l - 1
  end
  put_free(a, l)
end

-- Takes a block out of the free space of its parent. If the block is part of a free
-- one, the rest of that stays free; if it is not, what is free in it is taken.
local function cut(a, l, to)
  for from = l, to, -1 do
    if shrink('ZREM', KEYS[2], code(around(a, from), from)) == 1 then
      for m = from + 1, l do
        local mine, n = around(a, m), addresses(m)
        put_free(mine % (2 * n) == 0 and mine + n or mine - n, m)
      end
      return
    end
  end
  for m = l + 1, 32 do
    shrink('ZREMRANGEBYSCORE', KEYS[2], code(a, m), code(a + addresses(l) - 1, m))
  end
end

-- Frees the parts of a block in which nothing is held. No block around it is held.
local function fill(a, l, to)
  if redis.call('HEXISTS', KEYS[3], code(a, l)) == 1 then return end
  local first = string.format('%.0f', a)
  local inside = redis.call('ZRANGEBYSCORE', KEYS[4], first, string.format('%.0f', a + addresses(l) - 1), 'LIMIT', 0, 1)
  if #inside == 0 then return join_free(a, l, to) end
  fill(a, l + 1, to)
  fill(a + addresses(l + 1), l + 1, to)
end

local function free(a, l, to)
  local above = {}
  for m = 0, l do above[m + 1] = code(around(a, m), m) end
  for _, count in ipairs(redis.call('HMGET', KEYS[3], unpack(above))) do
    if count then return end
  end
  fill(a, l, to)
end

local function get_parents()
  local parents = cjson.decode(redis.call('HGET', KEYS[7], 'json') or '[]')
  for _, p in ipairs(parents) do
    for i = 2, #p, 2 do assert(tonumber(p[i]) and tonumber(p[i + 1]), 'the parents of network ranges cannot be read') end
  end
  return parents
end

-- Reads everything once before the first write, so that a key that cannot be read ends
-- the script there. Redis does not undo the writes before an error: blocks that are
-- held by then would be in no record.
local function readable()
  redis.call('ZCARD', KEYS[2])
  redis.call('ZCARD', KEYS[4])
  return get_parents()
end

-- Calls f with what a block and each parent have in common: the smaller of the two.
local function each_parent(parents, a, l, f)
  for _, p in ipairs(parents) do
    for i = 2, #p, 2 do
      local pa, pl = p[i], p[i + 1]
      if pl <= l and around(a, pl) == pa then f(a, l, pl)
      elseif pl > l and around(pa, l) == a then f(pa, pl, pl) end
    end
  end
end

local function hold(a, l)
  local parents = readable()
  if grow('HINCRBY', KEYS[3], code(a, l), 1) > 1 then return end
  grow('ZADD', KEYS[4], string.format('%.0f', a), code(a, l))
  each_parent(parents, a, l, cut)
end

local function drop(a, l)
  local parents = readable()
  if grow('HINCRBY', KEYS[3], code(a, l), -1) > 0 then return end
  shrink('HDEL', KEYS[3], code(a, l))
  shrink('ZREM', KEYS[4], code(a, l))
  each_parent(parents, a, l, free)
end

-- A record is {rule = …, requests = {…}, blocks = {{id, a, l, {path, …}}, …}}.
local function get_records(cluster) return cjson.decode(redis.call('HGET', KEYS[5], cluster) or '[]') end

local function put_records(cluster, list)
  if #list == 0 then shrink('HDEL', KEYS[5], cluster)
  else grow('HSET', KEYS[5], cluster, cjson.encode(list)) end
end

local function holds(x, y) return x[3] <= y[3] and around(y[2], x[3]) == x[2] end

-- Calls f for the blocks that a cluster holds: those that lie in no other block of the rule.
local function each_outer(blocks, f)
  for i, b in ipairs(blocks) do
    local inner = false
    for j, o in ipairs(blocks) do
      inner = inner or holds(o, b) and (j < i or j > i and o[3] < b[3])
    end
    if not inner then f(b[2], b[3]) end
  end
end
`

// acquireSlice is the part of acquire that takes a block for each injection.
const acquireSlice = `
-- Finds a block inside another block of the same rule, whose free parts are s.free.
-- Nothing is returned to that list, and the smallest part that fits is split, so no two
-- parts have the same size.
local function local_find(s, size)
  local best
  for i, b in ipairs(s.free) do
    if b[2] <= size and (not best or b[2] > s.free[best][2]) then best = i end
  end
  if not best then return nil end
  local a, l = unpack(table.remove(s.free, best))
  for m = l + 1, size do table.insert(s.free, {a + addresses(m), m}) end
  return a
end

local function global_find(s, size)
  for i = 2, #s.cidrs, 2 do
    local pa, pl = s.cidrs[i], s.cidrs[i + 1]
    for l = size, pl, -1 do
      local found = redis.call('ZRANGEBYSCORE', KEYS[2], code(pa, l), code(pa + addresses(pl) - 1, l), 'LIMIT', 0, 1)
      if found[1] then
        local a = tonumber(found[1]) - l * 4294967296
        hold(a, size)
        return a
      end
    end
  end
end

local function local_largest(s)
  local best = -1
  for _, b in ipairs(s.free) do
    if best < 0 or b[2] < best then best = b[2] end
  end
  return best
end

local function global_largest(s)
  local best = -1
  for i = 2, #s.cidrs, 2 do
    local pa, pl = s.cidrs[i], s.cidrs[i + 1]
    for l = pl, (best < 0 and 32 or best - 1) do
      if redis.call('ZCOUNT', KEYS[2], code(pa, l), code(pa + addresses(pl) - 1, l)) > 0 then
        best = l
        break
      end
    end
  end
  return best
end

-- No request to this script changes the parents.
local function parents_of(place)
  if not place.parents then
    place.parents, place.by_id = get_parents(), {}
    for _, p in ipairs(place.parents) do place.by_id[p[1]] = p end
  end
  return place.parents, place.by_id
end

local function sources(injection, own)
  local all, parents, by_id = {}, parents_of(KEYS)
  for _, id in ipairs(injection.parents) do
    if own[id] then table.insert(all, own[id])
    elseif by_id[id] then table.insert(all, {id = id, cidrs = by_id[id]})
    else return nil, id end
  end
  if #injection.parents == 0 then
    for _, p in ipairs(parents) do table.insert(all, {id = p[1], cidrs = p}) end
  end
  return all
end

-- Returns the blocks that were found and, if one was not, the result of the script.
local function slice(rule, number)
  local blocks, own = {}, {}
  for i, injection in ipairs(rule.injections) do
    local all, unknown = sources(injection, own)
    if not all then return blocks, {'OK', 'unknown', number, i, unknown} end
    local a
    for _, s in ipairs(all) do
      a = (s.free and local_find or global_find)(s, injection.size)
      if a then break end
    end
    if not a then
      local out = {'OK', 'exhausted', number, i}
      for _, s in ipairs(all) do
        table.insert(out, s.id)
        table.insert(out, (s.free and local_largest or global_largest)(s))
      end
      return blocks, out
    end
    table.insert(blocks, {injection.id, a, injection.size, injection.paths})
    if injection.id ~= '' then own[injection.id] = {id = injection.id, free = {{a, injection.size}}} end
  end
  return blocks
end
`
