// Package blocks keeps network ranges in Redis: which cluster has which blocks.
package blocks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Ranges keeps network ranges in Redis. It is like a network.Space whose changes are made by scripts.
// Until the ranges are built, methods that read or change blocks or parents return account.ErrNotBuilt.
type Ranges struct{ site *counters.Site }

// New returns the ranges under the Store's prefix.
func New(s *counters.Store) *Ranges {
	return &Ranges{s.Site(account.RangesPlace, "f", "h", "i", "c", "x", "p")}
}

// most bounds the blocks of one call of foreignScript, so that no call makes other callers wait for long.
const most = 500

// acquireScript applies rules to a cluster (see network.Space.Acquire).
//
//	KEYS    -> see space
//	ARGV[1] -> cluster
//	ARGV[2] -> request
//	ARGV[3] -> JSON list of the rules
//
//	Returns {'OK', 'applied', the records of the cluster, number of new rules, their ids…} and three
//	values for each rule that is skipped: rule, path, the rule that has the path; or
//	{'OK', 'exhausted', number of the rule, number of the injection} and two values for each
//	parent that was tried: id, prefix length of its largest free block or -1 for none; or
//	{'OK', 'unknown', number of the rule, number of the injection, id of the parent that is not set}.
//	Numbers of rules and injections begin at 1
var acquireScript = script.New("acquire", []string{space, acquireSlice}, `
local list, rules = get_records(ARGV[1]), cjson.decode(ARGV[3])
local had, fresh, skipped = #list, {}, {}

local function has(rule)
  for _, r in ipairs(list) do
    if r.rule == rule.id then return true end
  end
  return false
end

local function taken(rule)
  local users = {}
  for _, r in ipairs(list) do
    for _, b in ipairs(r.blocks) do
      for _, path in ipairs(b[4]) do users[path] = users[path] or r.rule end
    end
  end
  for _, injection in ipairs(rule.injections) do
    for _, path in ipairs(injection.paths) do
      if users[path] then return path, users[path] end
    end
  end
end

for number, rule in ipairs(rules) do
  local path, by
  if not has(rule) then path, by = taken(rule) end
  if path then
    for _, v in ipairs({rule.id, path, by}) do table.insert(skipped, v) end
  elseif not has(rule) then
    local blocks, failed = slice(rule, number)
    table.insert(list, {rule = rule.id, requests = {}, blocks = blocks})
    if failed then
      for i = had + 1, #list do each_outer(list[i].blocks, drop) end
      return failed
    end
    table.insert(fresh, rule.id)
  end
end

local changed = #fresh > 0
for _, r in ipairs(list) do
  local relies = false
  for _, request in ipairs(r.requests) do relies = relies or request == ARGV[2] end
  if not relies then
    table.insert(r.requests, ARGV[2])
    changed = true
  end
end
if changed then put_records(ARGV[1], list) end
local out = {'OK', 'applied', cjson.encode(list), #fresh}
for _, v in ipairs(fresh) do table.insert(out, v) end
for _, v in ipairs(skipped) do table.insert(out, v) end
return out
`)

// Acquire applies rules to a cluster on behalf of a request, as network.Space.Acquire does. It skips a rule
// with a path that another rule of the cluster has, and applies all others or none. A rule that the cluster
// already has stays as it is. A repeat returns the same blocks, and no rule as new. Errors:
// an engine.Error of CodeNetworkExhausted with a *network.Exhausted; network.ErrUnknownParent if the
// rules and the parents in Redis come from different configurations: then set the parents, or wait
// until another worker sets them; account.ErrNotBuilt; an *engine.Error of Redis.
func (r *Ranges) Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	asked, err := json.Marshal(askedOf(rules))
	if err != nil {
		return network.Acquired{}, err
	}
	got, err := r.site.Run(ctx, acquireScript, cluster, request, asked)
	if err != nil {
		return network.Acquired{}, err
	}
	switch got.Text() {
	case "exhausted":
		rule, injection := rules[got.Number()-1], int(got.Number())-1
		var left []network.Left
		for got.More() {
			left = append(left, network.Left{Parent: got.Text(), Largest: int(got.Number())})
		}
		if got.Err() != nil {
			return network.Acquired{}, got.Err()
		}
		return network.Acquired{}, network.NewExhausted(rule, injection, left)
	case "unknown":
		rule, injection := rules[got.Number()-1], got.Number()
		return network.Acquired{}, fmt.Errorf("rule %s, injection %d: parent %s: %w", rule.ID, injection, got.Text(), network.ErrUnknownParent)
	}
	return acquiredOf(got)
}

// acquiredOf decodes the rest of an acquire that succeeded.
func acquiredOf(r *script.Reply) (network.Acquired, error) {
	records, err := readRecords("", r.Text())
	if err != nil {
		return network.Acquired{}, err
	}
	out := network.Acquired{Applied: appliedOf(records)}
	for range r.Number() {
		out.New = append(out.New, r.Text())
	}
	for r.More() {
		out.Skipped = append(out.Skipped, network.Skipped{Rule: r.Text(), Path: r.Text(), By: r.Text()})
	}
	return out, r.Err()
}

// returnScript drops a request from the records of a cluster, and frees the blocks that no other
// request relies on (see network.Space.Return). For the request "" it frees all blocks of the cluster.
//
//	KEYS    -> see space
//	ARGV[1] -> cluster
//	ARGV[2] -> request, "" for all
//
//	Returns {'OK', the dropped records as JSON} and, if ARGV[2] is one attempt, the request itself and the other
//	attempts at it, as far as they still rely on blocks
var returnScript = script.New("return ranges", []string{space}, `
local kept, gone, out, seen = {}, {}, {}, {}
local whole = string.match(ARGV[2], '^[^#]*')
for _, r in ipairs(get_records(ARGV[1])) do
  local others, relied = {}, ARGV[2] == ''
  for _, request in ipairs(r.requests) do
    if request == ARGV[2] or string.sub(request, 1, #ARGV[2] + 1) == ARGV[2] .. '#' then relied = true else table.insert(others, request) end
  end
  for _, request in ipairs(others) do
    if not seen[request] and (request == whole or string.sub(request, 1, #whole + 1) == whole .. '#') then
      seen[request] = true
      table.insert(out, request)
    end
  end
  if ARGV[2] == '' then others = {} end
  if relied and #others == 0 then
    each_outer(r.blocks, drop)
    table.insert(gone, r)
  else
    r.requests = others
    table.insert(kept, r)
  end
end
put_records(ARGV[1], kept)
return {'OK', cjson.encode(gone), unpack(out)}
`)

// Return is for a request that was not answered with the blocks that it relies on: it no longer relies on
// them, and the blocks on which no other request relies become free. request is the id of a request, which
// stands for all attempts at it, or of one attempt (network.Attempt). A repeat frees nothing. Errors:
// account.ErrNotBuilt, or an *engine.Error of Redis or for an empty request.
func (r *Ranges) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	if request == "" {
		return network.Returned{}, &engine.Error{
			Code: engine.CodeInternal, Op: "arguments of a Redis script",
			Err:  fmt.Errorf("no request is named that holds the blocks of cluster %s", cluster),
			Hint: "look for a reply in the ledger or a record in Redis that was written by hand",
		}
	}
	return r.giveBack(ctx, cluster, request)
}

// Release frees all blocks of a cluster, whichever requests rely on them, and returns the rules that the
// cluster had, with their blocks. A repeat returns none. Errors: account.ErrNotBuilt, or an *engine.Error of
// Redis.
func (r *Ranges) Release(ctx context.Context, cluster string) ([]network.Applied, error) {
	returned, err := r.giveBack(ctx, cluster, "")
	return returned.Gone, err
}

func (r *Ranges) giveBack(ctx context.Context, cluster, request string) (network.Returned, error) {
	got, err := r.site.Run(ctx, returnScript, cluster, request)
	if err != nil {
		return network.Returned{}, err
	}
	records, err := readRecords(cluster, got.Text())
	if err != nil {
		return network.Returned{}, err
	}
	returned := network.Returned{Gone: appliedOf(records)}
	for got.More() {
		returned.Kept = append(returned.Kept, got.Text())
	}
	return returned, got.Err()
}

// parentsScript sets the parents (see network.Space.SetParents). Its cost grows with the number of
// held blocks in new parents.
//
//	KEYS    -> see space
//	ARGV[1] -> JSON list of the parents
//
//	Returns {'OK'}
var parentsScript = script.New("set parents", []string{space}, `
local before, after = {}, {}
for _, p in ipairs(get_parents()) do
  for i = 2, #p, 2 do before[code(p[i], p[i + 1])] = {p[i], p[i + 1]} end
end
for _, p in ipairs(cjson.decode(ARGV[1])) do
  for i = 2, #p, 2 do after[code(p[i], p[i + 1])] = {p[i], p[i + 1]} end
end
for key, p in pairs(before) do
  if not after[key] then
    for l = p[2], 32 do
      shrink('ZREMRANGEBYSCORE', KEYS[2], code(p[1], l), code(p[1] + addresses(p[2]) - 1, l))
    end
  end
end
for key, p in pairs(after) do
  if not before[key] then free(p[1], p[2], p[2]) end
end
grow('HSET', KEYS[7], 'json', ARGV[1])
return {'OK'}
`)

// SetParents replaces the parents from which the next Acquire takes blocks. Blocks in use stay in use, also
// outside of every parent. Errors: account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) SetParents(ctx context.Context, parents []network.Parent) error {
	packed, err := packParents(parents)
	if err != nil {
		return err
	}
	_, err = r.site.Run(ctx, parentsScript, packed)
	return err
}

// foreignScript marks blocks as used by other allocators, so that none is allotted, or removes that mark.
// Marking a marked block and unmarking an unmarked one change nothing.
//
//	KEYS     -> see space
//	ARGV[1]  -> 1: mark, 0: unmark
//	ARGV[2…] -> codes of the blocks
//
//	Returns {'OK'}
var foreignScript = script.New("foreign ranges", []string{space}, `
for i = 2, #ARGV do
  local l = math.floor(tonumber(ARGV[i]) / 4294967296)
  local a = tonumber(ARGV[i]) - l * 4294967296
  if ARGV[1] == '1' then
    if redis.call('HEXISTS', KEYS[6], ARGV[i]) == 0 then
      hold(a, l)
      grow('HSETNX', KEYS[6], ARGV[i], 1)
    end
  elseif redis.call('HEXISTS', KEYS[6], ARGV[i]) == 1 then
    drop(a, l)
    shrink('HDEL', KEYS[6], ARGV[i])
  end
end
return {'OK'}
`)

// Block prevents the allotment of blocks that another allocator uses, until Unblock. It is idempotent. It
// works in chunks, so after an error some of the blocks may be blocked. Errors: account.ErrNotBuilt, or an
// *engine.Error of Redis.
func (r *Ranges) Block(ctx context.Context, foreign ...netip.Prefix) error {
	return r.foreign(ctx, true, foreign)
}

// Unblock ends Block for these blocks. It is idempotent, and works in chunks. Errors as of Block.
func (r *Ranges) Unblock(ctx context.Context, foreign ...netip.Prefix) error {
	return r.foreign(ctx, false, foreign)
}

func (r *Ranges) foreign(ctx context.Context, block bool, blocks []netip.Prefix) error {
	for len(blocks) > 0 {
		n := min(most, len(blocks))
		args := []any{0}
		if block {
			args[0] = 1
		}
		for _, p := range blocks[:n] {
			args = append(args, codeOf(p.Masked()))
		}
		if _, err := r.site.Run(ctx, foreignScript, args...); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

// appliedScript reads what a cluster has.
//
//	KEYS    -> see space
//	ARGV[1] -> cluster
//
//	Returns {'OK', the records of the cluster}
var appliedScript = script.New("applied ranges", nil, `return {'OK', redis.call('HGET', KEYS[5], ARGV[1]) or '[]'}`)

// Applied returns the rules and blocks of a cluster, in the order in which they were applied. Errors:
// account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) Applied(ctx context.Context, cluster string) ([]network.Applied, error) {
	got, err := r.site.Run(ctx, appliedScript, cluster)
	if err != nil {
		return nil, err
	}
	records, err := readRecords(cluster, got.Text())
	return appliedOf(records), err
}
