package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/config"
)

// allottedBlock is a block of a runtime's cluster.
type allottedBlock struct {
	RuntimeID string       `json:"runtimeID"`
	Rule      string       `json:"rule"`
	ID        string       `json:"id"` // of the injection, may be ""
	CIDR      netip.Prefix `json:"cidr"`
	Paths     []string     `json:"paths"`
}

// allottedView is the output of network list.
type allottedView struct {
	Blocks  []allottedBlock `json:"blocks"`
	Foreign []netip.Prefix  `json:"foreign"` // blocks of other allocators
}

func (v allottedView) Show(w io.Writer, wide bool) {
	header := []string{"RUNTIME", "RULE", "INJECTION", "CIDR"}
	if wide {
		header = append(header, "PATHS")
	}
	var rows [][]string
	for _, b := range v.Blocks {
		row := []string{b.RuntimeID, b.Rule, b.ID, b.CIDR.String()}
		if wide {
			row = append(row, strings.Join(b.Paths, ", "))
		}
		rows = append(rows, cli.Dashed(row))
	}
	for _, p := range v.Foreign {
		row := []string{"of another allocator", "", "", p.String()}
		if wide {
			row = append(row, "")
		}
		rows = append(rows, cli.Dashed(row))
	}
	cli.FittedUnless(w, wide, header, rows, "RULE", "INJECTION", "RUNTIME")
}

// freeParent is the free space of a parent.
type freeParent struct {
	Parent    string         `json:"parent"`
	CIDRs     []netip.Prefix `json:"cidrs"`
	Addresses int64          `json:"addresses"`
	Free      int64          `json:"free"`
	Largest   string         `json:"largest,omitempty"` // prefix length of the largest free block, as "/24"
	Blocks    *int64         `json:"blocks,omitempty"`  // how many blocks of --size can still be taken; nil without --size
}

// freeView is the output of network free.
type freeView struct {
	Parents []freeParent   `json:"parents"`
	Free    []netip.Prefix `json:"free"` // all free space, as the fewest possible blocks
}

func (v freeView) Show(w io.Writer, wide bool) {
	header := []string{"PARENT", "CIDRS", "ADDRESSES", "FREE", "LARGEST", "BLOCKS"}
	rows := make([][]string, len(v.Parents))
	for i, p := range v.Parents {
		blocks := ""
		if p.Blocks != nil {
			blocks = strconv.FormatInt(*p.Blocks, 10)
		}
		rows[i] = cli.Dashed([]string{p.Parent, prefixes(p.CIDRs), strconv.FormatInt(p.Addresses, 10), strconv.FormatInt(p.Free, 10), p.Largest, blocks})
	}
	cli.FittedUnless(w, wide, header, rows, "CIDRS", "PARENT")
	if wide {
		fmt.Fprintln(w)
		free := make([][]string, len(v.Free))
		for i, p := range v.Free {
			free[i] = []string{p.String()}
		}
		cli.Table(w, []string{"FREE"}, free)
	}
}

func prefixes(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// conflictsView lists the blocks that are held twice.
type conflictsView struct {
	Conflicts []string `json:"conflicts"`
}

func (v conflictsView) Show(w io.Writer, _ bool) {
	if len(v.Conflicts) == 0 {
		fmt.Fprintln(w, "no conflicts")
	}
	for _, c := range v.Conflicts {
		fmt.Fprintln(w, c)
	}
}

// liveRanges makes cmd a command that reads the network ranges from Redis and calls run with them. If they are not
// built there, the command fails.
func liveRanges(s *cli.Shell, cmd *cobra.Command, run func(context.Context, *blocks.Ranges, network.State) error) *cobra.Command {
	cmd.Args = cli.Arguments(cobra.NoArgs)
	return s.Reader(cmd, "for Redis", func(ctx context.Context, cfg *config.Config, _ []string) error {
		store, err := cli.OpenRedis(ctx, s, cfg)
		if err != nil {
			return err
		}
		ranges := blocks.New(store)
		state, err := ranges.State(ctx)
		if errors.Is(err, account.ErrNotBuilt) {
			return errors.New("no network ranges are in Redis; start a worker whose configuration has the section network, which builds them")
		}
		if err != nil {
			return err
		}
		return run(ctx, ranges, state)
	})
}

func newNetworkList(s *cli.Shell) *cobra.Command {
	var runtime string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the allotted network blocks",
		Long: `List the network blocks that clusters have now, by runtime, and the blocks that are
reserved because another allocator uses them. hapctl reads Redis and changes nothing.`,
		Example: `  hapctl network list
  hapctl network list --runtime rt-1 -o wide`,
	}
	cmd.Flags().StringVar(&runtime, "runtime", "", "show only blocks of the runtime `id`")
	return liveRanges(s, cmd, func(_ context.Context, _ *blocks.Ranges, state network.State) error {
		v := allottedView{Blocks: []allottedBlock{}, Foreign: []netip.Prefix{}}
		for _, r := range state.Records {
			for _, b := range r.Blocks {
				if runtime == "" || runtime == r.Cluster {
					v.Blocks = append(v.Blocks, allottedBlock{RuntimeID: r.Cluster, Rule: r.Rule, ID: b.ID, CIDR: b.CIDR, Paths: cli.NotNil(b.Paths)})
				}
			}
		}
		if runtime == "" {
			v.Foreign = cli.NotNil(state.Foreign)
		}
		return s.PrintSome(v, len(v.Blocks)+len(v.Foreign), "network blocks")
	})
}

func newNetworkFree(s *cli.Shell) *cobra.Command {
	var size int
	cmd := &cobra.Command{
		Use:   "free",
		Short: "Show how much of each parent range is free",
		Long: `Show for each parent how many addresses its ranges have, how many of them are free, and
the largest free block. With --size, hapctl also shows how many blocks of that size
are free. -o wide and -o json list the free blocks. hapctl reads Redis and changes
nothing.`,
		Example: `  hapctl network free
  hapctl network free --size 28`,
	}
	cmd.Flags().IntVar(&size, "size", 0, "prefix `length` of the blocks to count, such as 28")
	liveRanges(s, cmd, func(ctx context.Context, ranges *blocks.Ranges, state network.State) error {
		rooms, err := ranges.Room(ctx)
		if err != nil {
			return err
		}
		v := freeView{Parents: []freeParent{}, Free: cli.NotNil(network.Build(state).Free())}
		for _, p := range state.Parents {
			room := rooms[p.ID]
			one := freeParent{Parent: p.ID, CIDRs: p.CIDRs, Addresses: p.Addresses(), Free: room.Addresses()}
			if at := slices.IndexFunc(room[:], func(blocks int) bool { return blocks > 0 }); at >= 0 {
				one.Largest = "/" + strconv.Itoa(at)
			}
			if size > 0 {
				blocks := room.Blocks(size)
				one.Blocks = &blocks
			}
			v.Parents = append(v.Parents, one)
		}
		slices.SortFunc(v.Parents, func(a, b freeParent) int { return natural.Compare(a.Parent, b.Parent) })
		return s.PrintSome(v, len(v.Parents), "parents")
	})
	timed := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("size") && (size < 1 || size > 32) {
			return cli.Usagef("--size is %d, must be from 1 to 32", size)
		}
		return timed(cmd, args)
	}
	return cmd
}

func newNetworkConflicts(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conflicts",
		Short: "Show network blocks that have two holders",
		Long: `Show the network blocks that two clusters hold, or a cluster and another allocator.
Workers count them in hap_network_conflicts. hapctl reads Redis and changes nothing.
The exit code is 5 if there is such a block.`,
		Example: `  hapctl network conflicts`,
	}
	return liveRanges(s, cmd, func(ctx context.Context, ranges *blocks.Ranges, state network.State) error {
		conflicts := state.Conflicts()
		if len(conflicts) > 0 {
			later, err := ranges.State(ctx)
			if err != nil {
				return err
			}
			conflicts = later.Lasting(conflicts)
		}
		v := conflictsView{Conflicts: cli.NotNil(conflicts)}
		if err := s.Print(v); err != nil || len(v.Conflicts) == 0 {
			return err
		}
		return cli.Said(cli.ExitConflict)
	})
}
