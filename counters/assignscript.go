package counters

// The parts of the scripts that decide which binding a runtime gets, rule 3.

// assignRequest has the Lua functions that decode the arguments of assignScript, read bindings, and list the
// considered bindings.
const assignRequest = `
local asked, id, request, tenant, shared, several, limit, strategy, all, in_turn, now, most, first, barred, read, considered

local function take_up(ARGV)
  asked, id, request, tenant = ARGV, ARGV[1], ARGV[2], ARGV[3]
  shared, several, limit, strategy = ARGV[4] == '1', ARGV[5] == '1', tonumber(ARGV[6]), ARGV[7]
  all, most = ARGV[8] == '1', tonumber(ARGV[10])
  in_turn, now = ARGV[9] == '1' or ARGV[9] == '3', ARGV[9] == '2' or ARGV[9] == '3'
  first = 14 + tonumber(ARGV[13])
  barred, read, considered = {}, {}, {}
  for i = 14, first - 1 do barred[ARGV[i]] = true end
end

-- Reads each binding once: take and choose see the record of the runtime's
-- earlier binding without the runtime, although that is not written yet.
local function look(name)
  if not read[name] then read[name] = get_binding(name) end
  return read[name]
end

local function fetch(names)
  if #names == 1 then
    look(names[1])
    return
  end
  for from = 1, #names, 500 do
    local packed = redis.call('HMGET', KEYS[2], unpack(names, from, math.min(from + 499, #names)))
    for i = 1, #packed do
      local name = names[from + i - 1]
      local value = unwritten(2, name)
      if value == nil then value = packed[i] end
      if not read[name] then read[name] = unpack_binding(name, value) end
    end
  end
end

-- In a full list the chosen binding replaces the last one; others are left out.
local function note(name, clusters, verdict)
  local at = #considered + 1
  if at > 3 * most then
    if verdict ~= 'chosen' then return end
    at = 3 * (most - 1) + 1
  end
  considered[at], considered[at + 1], considered[at + 2] = name, clusters, verdict
end
`

const assignChoice = `
local function full(rec) return several and limit > 0 and rec.count >= limit end

-- A tenant that may have one account uses the one with more clusters, whatever the
-- strategy, since an idle second one must not come into use (I4); of two with as
-- many clusters, the one that was claimed last.
local function prefers(a, b)
  if not several and a.count == b.count then return a.claimed > b.claimed end
  if several and strategy == 'round-robin' then return a.count < b.count end
  if several and strategy == 'fill-first' then return a.claimed > b.claimed end
  return a.count > b.count
end

local function best(own, one, other)
  local chosen
  for _, name in ipairs(own) do
    local rec = read[name]
    if (rec.state == one or rec.state == other) and not barred[name] and not full(rec) and
      (not chosen or prefers(rec, read[chosen])) then chosen = name end
  end
  return chosen
end

local function verdict(name, chosen)
  local rec = read[name]
  if name == chosen then return 'chosen' end
  if rec.state == 'dirtying' then return 'held' end
  if barred[name] then return 'barred' end
  if full(rec) then return 'at-limit' end
  return 'less-fitting'
end

local function own_bindings()
  local own = redis.call('ZRANGEBYLEX', KEYS[4], '[' .. tenant .. ' ', '(' .. tenant .. '!')
  for i = 1, #own do own[i] = string.sub(own[i], #tenant + 2) end
  fetch(own)
  return own
end

-- Returns the binding, how it was found, and whether another may be claimed.
local function choose_own()
  local own, live = own_bindings(), false
  for _, name in ipairs(own) do
    local rec = read[name]
    live = live or (not several and barred[name] and rec.count > 0 and
      (rec.state == 'claiming' or rec.state == 'claimed'))
  end
  local chosen, origin = best(own, 'claiming', 'claimed'), 'own'
  if not chosen then chosen, origin = best(own, 'draining', 'draining'), 'revived' end
  if chosen and live and read[chosen].count == 0 then chosen = nil end -- I4: that would be a second account
  for _, name in ipairs(own) do note(name, read[name].count, verdict(name, chosen)) end
  return chosen, origin, not chosen and not live
end

local function choose_seen(mine, origin)
  for i = first, #asked, 3 do
    if asked[i + 2] == mine then
      local name = asked[i]
      local rec = look(name)
      if rec.state ~= 'free' or rec.count > 0 then
        if rec.state == 'free' or rec.tenant ~= tenant then note(name, rec.count, 'held') end
      elseif barred[name] then
        note(name, 0, 'barred')
      else
        note(name, 0, 'chosen')
        return name, origin, tonumber(asked[i + 1])
      end
    end
  end
end

local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end -- byte order: '<' would follow the server's locale
  end
  return #a < #b
end

local function choose_shared()
  local names, chosen = {}, nil
  for i = first, #asked, 3 do names[#names + 1] = asked[i] end
  fetch(names)
  local function sharable(name)
    return not barred[name] and (not read[name].known or is_shared(read[name]))
  end
  for _, name in ipairs(names) do
    if sharable(name) and (not chosen or read[name].count < read[chosen].count or
      read[name].count == read[chosen].count and before(name, chosen)) then chosen = name end
  end
  for _, name in ipairs(names) do
    local why = 'more-used'
    if name == chosen then why = 'chosen'
    elseif barred[name] then why = 'barred'
    elseif not sharable(name) then why = 'held' end
    note(name, read[name].count, why)
  end
  return chosen, 'shared'
end

-- Rule 12: while others wait, only a request whose turn it is may claim.
local function overtakes() return not in_turn and redis.call('ZCARD', KEYS[6]) > 0 end

-- Rule 3: the tenant's own, then one that its label gives the tenant, then an unclaimed one.
local function choose()
  if paused then return nil end
  if shared then return choose_shared() end
  local chosen, origin, may_claim = choose_own()
  local generation
  if may_claim then
    chosen, origin, generation = choose_seen('1', 'labelled')
    if not chosen and not overtakes() then chosen, origin, generation = choose_seen('0', 'claimed') end
  end
  return chosen, origin, generation
end
`

const assignOutcome = `
local function with_considered(out)
  for i = 1, #considered do out[#out + 1] = considered[i] end
  return out
end

-- Returns the generation for an unconfirmed claim. Rule 3: the claim was released
-- meanwhile if its label is unclaimed at that generation or above, or the tenant's
-- above it. Then the claim takes the generation after the label's, so that it
-- differs from the released one.
local function outgrown(name, generation)
  for i = first, #asked, 3 do
    local seen = tonumber(asked[i + 1])
    if asked[i] == name and (seen > generation or seen == generation and asked[i + 2] == '0') then return seen + 1 end
  end
  return generation
end

-- Adds the request to those of the assignment, and returns whether it was not among
-- them. Rule 11: the assignment stays while one of them may be answered with it.
local function relies(rt)
  local known = 0
  for one in string.gmatch(rt.request, '[^ ]+') do
    if one == request or one == '*' then return false end
    known = known + 1
  end
  rt.request = rt.request .. (known > 0 and ' ' or '') .. (known == 8 and '*' or request)
  return true
end

-- Rule 4: the request may be answered at once only if the runtime or its binding is
-- confirmed. A confirmed binding confirms the runtime.
local function answer(rt, rec, repeated, waited)
  local generation, confirmed, further = rec.generation, rt.confirmed or rec.confirmed, repeated and relies(rt)
  if not confirmed then generation = outgrown(rt.binding, generation) end
  local same_binding, same_runtime = repeated and generation == rec.generation, repeated and confirmed == rt.confirmed and not further
  rec.generation, rt.confirmed = generation, confirmed
  if not same_binding then put_binding(rt.binding, rec) end
  if not same_runtime then put_runtime(id, rt, waited) end
  if rec.state == 'claiming' and not repeated then grow('ZADD', KEYS[5], 0, rt.binding .. ' ' .. id) end
  return 'OK|assigned|' .. rt.binding .. '|' .. num(generation) .. '|' .. num(rt.sequence) .. '|' .. epoch .. '|' ..
    bit(confirmed) .. '|' .. rt.origin .. '|' .. first_request(rt) .. '|' .. bit(repeated) .. '|' .. num(rec.count) .. '|0|' .. bit(rec.state == 'claiming')
end

-- Tenants are served in turn: the one that was served last comes after all others.
local function had_turn(sequence)
  if redis.call('ZCARD', KEYS[6]) == 0 then
    shrink('DEL', KEYS[7])
  else
    grow('ZADD', KEYS[7], num(sequence), tenant)
  end
end

local function take(name, origin, generation, waited)
  local rec, sequence = look(name), next_sequence()
  if origin == 'revived' then
    rec.state = 'claimed' -- rule 3: its confirmed stays as it was
  elseif origin == 'labelled' or origin == 'claimed' then
    rec.state, rec.tenant, rec.generation = 'claiming', tenant, generation + 1
    rec.confirmed, rec.count, rec.claimed, rec.pristine = false, 0, sequence, origin == 'claimed'
  elseif origin == 'shared' then
    rec.state, rec.confirmed = 'claimed', true
  end
  rec.count = rec.count + 1
  local out = answer({state = 'assigned', binding = name, sequence = sequence, request = request,
    confirmed = false, origin = origin, tenant = tenant}, rec, false, waited)
  if waited then had_turn(sequence) end
  if #considered > 0 then out = out .. '|' .. table.concat(considered, '|') end
  return out
end

local function wait(rt)
  if now then
    local waited = rt.state == 'waiting'
    rt = {state = 'refused', binding = '', sequence = next_sequence(), request = request,
      confirmed = false, origin = '', tenant = tenant}
    put_runtime(id, rt, waited)
    return with_considered(decided('refused', rt))
  end
  if rt.state ~= 'waiting' then
    rt = {state = 'waiting', binding = '', sequence = next_sequence(), request = request,
      confirmed = false, origin = '', tenant = tenant}
    put_runtime(id, rt)
  end
  local out = decided('waiting', rt)
  out[12] = redis.call('ZRANK', KEYS[6], id) + 1
  return with_considered(out)
end

`

const assignDecision = `
take_up(ARGV)
if ARGV[11] ~= '' and ARGV[11] ~= epoch then return {'REBUILT'} end
local rt, left = arrived(id, tonumber(ARGV[12]))
if left then return decided('moved', rt) end
if rt.state == 'gone' then return decided('superseded', {binding = '', sequence = rt.sequence, request = rt.request}) end
if rt.state == 'refused' and rt.request == request then return decided('refused', rt) end
if foreign(rt, tenant) then return decided('foreign', unknown_runtime()) end
local forgotten
if rt.state == 'assigned' then
  local rec = look(rt.binding)
  if rt.confirmed or rec.tenant == tenant and not is_shared(rec) and
    (rec.state == 'claiming' or rec.state == 'claimed') then
    return answer(rt, rec, true)
  end
  if rec.known then -- take the runtime off that binding; it is written only with a new decision
    forgotten = rt.binding
    less(rec)
  end
end
local name, origin, generation = choose()
if not name and not all and not paused then
  return with_considered({'OK', 'short', '', 0, 0, epoch, 0, '', '', 0, 0, 0, 0})
end
if forgotten then
  shrink('ZREM', KEYS[5], forgotten .. ' ' .. id)
  put_binding(forgotten, read[forgotten])
end
if name then return take(name, origin, generation, rt.state == 'waiting') end
return wait(rt)
`
