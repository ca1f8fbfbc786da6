package blocks

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
)

// list decodes a JSON list that Lua encoded. Lua encodes an empty list as {}.
type list[T any] []T

// UnmarshalJSON reads {} as an empty list.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	if string(text) == "{}" {
		return nil
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// askedRule is the JSON form of a rule in an argument of acquireScript.
type askedRule struct {
	ID         string           `json:"id"`
	Injections []askedInjection `json:"injections"`
}

type askedInjection struct {
	ID      string   `json:"id"`
	Size    int      `json:"size"`
	Parents []string `json:"parents"`
	Paths   []string `json:"paths"`
}

func askedOf(rules []network.Rule) []askedRule {
	asked := make([]askedRule, len(rules))
	for i, r := range rules {
		asked[i] = askedRule{ID: r.ID, Injections: []askedInjection{}}
		for _, in := range r.Injections {
			asked[i].Injections = append(asked[i].Injections, askedInjection{
				ID: in.ID, Size: in.Size, Parents: append([]string{}, in.Parents...), Paths: in.Paths,
			})
		}
	}
	return asked
}

// rangeRecord is the JSON form of a record in Redis.
type rangeRecord struct {
	Rule     string           `json:"rule"`
	Requests list[string]     `json:"requests"`
	Blocks   list[rangeBlock] `json:"blocks"`
}

// rangeBlock is [id, first address, prefix length, [path, …]].
type rangeBlock network.Block

// MarshalJSON writes the four values in their order.
func (b rangeBlock) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{b.ID, addressOf(b.CIDR), b.CIDR.Bits(), b.Paths})
}

// UnmarshalJSON reads the four values in their order.
func (b *rangeBlock) UnmarshalJSON(text []byte) error {
	var address uint32
	var length int
	var paths list[string]
	if err := json.Unmarshal(text, &[]any{&b.ID, &address, &length, &paths}); err != nil {
		return err
	}
	b.CIDR, b.Paths = prefixAt(address, length), paths
	return nil
}

// readRecords decodes the records of a cluster.
func readRecords(cluster, packed string) ([]network.Record, error) {
	var all list[rangeRecord]
	if err := json.Unmarshal([]byte(packed), &all); err != nil {
		return nil, rangesUnreadable(fmt.Errorf("the records of cluster %s are unreadable: %w", cluster, err))
	}
	records := make([]network.Record, len(all))
	for i, r := range all {
		records[i] = network.Record{Cluster: cluster, Requests: r.Requests, Applied: network.Applied{Rule: r.Rule}}
		for _, b := range r.Blocks {
			records[i].Blocks = append(records[i].Blocks, network.Block(b))
		}
	}
	return records, nil
}

func packRecords(records ...*network.Record) (string, error) {
	all := make([]rangeRecord, len(records))
	for i, r := range records {
		all[i] = rangeRecord{Rule: r.Rule, Requests: r.Requests}
		for _, b := range r.Blocks {
			all[i].Blocks = append(all[i].Blocks, rangeBlock(b))
		}
		if all[i].Requests == nil { // null would be no list in Lua
			all[i].Requests = list[string]{}
		}
		if all[i].Blocks == nil {
			all[i].Blocks = list[rangeBlock]{}
		}
	}
	packed, err := json.Marshal(all)
	return string(packed), err
}

func appliedOf(records []network.Record) []network.Applied {
	var all []network.Applied
	for _, r := range records {
		all = append(all, r.Applied)
	}
	return all
}

// packParents encodes the parents as [[id, a, l, a, l, …], …]: for each CIDR of a parent its first address a and
// its prefix length l.
func packParents(parents []network.Parent) (string, error) {
	all := make([][]any, len(parents))
	for i, p := range parents {
		all[i] = []any{p.ID}
		for _, c := range p.CIDRs {
			all[i] = append(all[i], addressOf(c), c.Bits())
		}
	}
	packed, err := json.Marshal(all)
	return string(packed), err
}

func readParents(packed string) ([]network.Parent, error) {
	var all [][]json.RawMessage
	if err := json.Unmarshal([]byte(packed), &all); err != nil {
		return nil, rangesUnreadable(fmt.Errorf("the parents are unreadable: %w", err))
	}
	var parents []network.Parent
	for _, values := range all {
		p, err := readParent(values)
		if err != nil {
			return nil, rangesUnreadable(fmt.Errorf("the parents are unreadable: %w", err))
		}
		parents = append(parents, p)
	}
	return parents, nil
}

func readParent(values []json.RawMessage) (p network.Parent, err error) {
	if len(values)%2 == 0 {
		return p, fmt.Errorf("%d values", len(values))
	}
	if err := json.Unmarshal(values[0], &p.ID); err != nil {
		return p, err
	}
	for i := 1; i < len(values); i += 2 {
		var address uint32
		var length int
		if err := json.Unmarshal(values[i], &address); err != nil {
			return p, err
		}
		if err := json.Unmarshal(values[i+1], &length); err != nil {
			return p, err
		}
		p.CIDRs = append(p.CIDRs, prefixAt(address, length))
	}
	return p, nil
}

// codeOf returns the code of a block, as the scripts use it (see space).
func codeOf(p netip.Prefix) string {
	return strconv.FormatUint(uint64(p.Bits())<<32|uint64(addressOf(p)), 10)
}

func prefixOfCode(code string) (netip.Prefix, error) {
	n, err := strconv.ParseUint(code, 10, 64)
	if err != nil || n>>32 > 32 {
		return netip.Prefix{}, rangesUnreadable(fmt.Errorf("%q is no block", code))
	}
	return prefixAt(uint32(n), int(n>>32)), nil
}

func addressOf(p netip.Prefix) uint32 {
	a := p.Addr().As4()
	return binary.BigEndian.Uint32(a[:])
}

func prefixAt(address uint32, length int) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], address)
	return netip.PrefixFrom(netip.AddrFrom4(a), length)
}

func rangesUnreadable(err error) error {
	return &engine.Error{Code: engine.CodeInternal, Op: "reading ranges in Redis", Err: err, Hint: "rebuild them: hapctl counters rebuild"}
}
