package blocks

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/network"
)

// restoreRangesScript puts a record back (see network.Space.Restore).
//
//	KEYS    -> see space
//	ARGV[1] -> cluster
//	ARGV[2] -> JSON list of the one record
//
//	Returns {'OK', 1 if it was put back, 0 if the cluster has the rule}
var restoreRangesScript = script.New("restore ranges", []string{space}, `
local list, record = get_records(ARGV[1]), cjson.decode(ARGV[2])[1]
for _, r in ipairs(list) do
  if r.rule == record.rule then return {'OK', 0} end
end
each_outer(record.blocks, hold)
table.insert(list, record)
put_records(ARGV[1], list)
return {'OK', 1}
`)

// Restore puts back a record that Redis has lost and the ledger or the cluster still has, even if its blocks
// lie outside the parents or another cluster has them, too. If the cluster already has the rule, Restore
// returns false and changes nothing.
// Errors: account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) Restore(ctx context.Context, record network.Record) (bool, error) {
	packed, err := packRecords(&record)
	if err != nil {
		return false, err
	}
	got, err := r.site.Run(ctx, restoreRangesScript, record.Cluster, packed)
	if err != nil {
		return false, err
	}
	return got.Flag(), got.Err()
}

// roomScript counts the free blocks of each size in each parent.
//
//	KEYS -> see space
//
//	Returns {'OK', id, number of /0, …, number of /32, id, …}
var roomScript = script.New("room of ranges", []string{space}, `
local out = {'OK'}
for _, p in ipairs(get_parents()) do
  local sizes = {}
  for l = 0, 32 do sizes[l] = 0 end
  for i = 2, #p, 2 do
    local pa, pl = p[i], p[i + 1]
    for l = pl, 32 do
      sizes[l] = sizes[l] + redis.call('ZCOUNT', KEYS[2], code(pa, l), code(pa + addresses(pl) - 1, l))
    end
  end
  table.insert(out, p[1])
  for l = 0, 32 do table.insert(out, sizes[l]) end
end
return out
`)

// Room returns the number of free blocks of each size in each parent, by the parent's id. Free space counts
// as the fewest blocks that it consists of: a free /16 is one /16, and no /17. The cost hardly grows with the
// number of blocks. Errors: account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) Room(ctx context.Context) (map[string]network.Room, error) {
	got, err := r.site.Run(ctx, roomScript)
	if err != nil {
		return nil, err
	}
	rooms := map[string]network.Room{}
	for got.More() {
		id, room := got.Text(), network.Room{}
		for size := range room {
			room[size] = int(got.Number())
		}
		rooms[id] = room
	}
	return rooms, got.Err()
}
