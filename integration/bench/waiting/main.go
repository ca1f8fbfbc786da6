// Command waiting measures the cost of waiting requests: the load of an idle worker; the times to enter, to leave,
// to be refused at a deadline and to get a new account; and the time from a worker's start until a waiting request
// gets an account.
//
//	go run -C integration ./bench/waiting
//
// It starts the development stack with workers. For each number of -waiting, it adds requests until it has added
// that many, and measures; those that get an account at one number are not replaced at the next. Exit codes: 0, 1
// failure, 2 usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
)

// settings are the flags.
type settings struct {
	sizes   []int // numbers of waiting requests, ascending
	workers int
	tenants int
	pools   int
	tries   int
	idle    time.Duration
	json    string
	plot    string
}

func main() {
	var s settings
	waiting := flag.String("waiting", "100,4000,100000", "how many requests wait, ascending")
	flag.IntVar(&s.workers, "workers", 3, "how many workers there are")
	flag.IntVar(&s.tenants, "tenants", 4000, "how many tenants the requests are of, at most")
	flag.IntVar(&s.pools, "pools", 10, "how many pools they wait for")
	flag.IntVar(&s.tries, "tries", 200, "how often each step is measured")
	flag.DurationVar(&s.idle, "idle", 60*time.Second, "for how long the idle workers are watched")
	flag.StringVar(&s.json, "json", "", "file for the figures")
	flag.StringVar(&s.plot, "plot", "", "file for the plot, SVG")
	flag.Parse()
	for field := range strings.SplitSeq(*waiting, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || len(s.sizes) > 0 && n <= s.sizes[len(s.sizes)-1] {
			flag.Usage()
			os.Exit(2)
		}
		s.sizes = append(s.sizes, n)
	}
	if flag.NArg() > 0 || min(s.workers, s.tenants, s.pools, s.tries) < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "waiting:", err)
		os.Exit(1)
	}
}

// figures are the measurements with a number of waiting requests.
type figures struct {
	Waiting  int         `json:"waiting"`
	CPU      float64     `json:"idleCPU"`       // share of a core, mean of the workers
	Sent     float64     `json:"idleRedisSent"` // commands a second that a worker sends, mean of the workers
	Executed float64     `json:"idleRedis"`     // the same with the commands of scripts
	Enter    percentiles `json:"enterMs"`       // from the publish to the waiting reply
	Leave    percentiles `json:"leaveMs"`       // from the deprovision of a waiting request to its answer
	Deadline percentiles `json:"deadlineMs"`    // from the deadline to the refusal
	HandOn   percentiles `json:"handOnMs"`      // from the creation of an account to the answer with it
	Restart  float64     `json:"restartSecs"`   // from the start of one worker to the answer with an account that is created once the worker is ready
}

func run(ctx context.Context, s settings) (err error) {
	b, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	var all []figures
	fmt.Println(origin.Of(ctx))
	fmt.Printf("%d workers, %d pools, at most %d tenants; times are median / 99th percentile\n\n", s.workers, s.pools, s.tenants)
	fmt.Println("| Waiting | Idle worker: CPU | Redis commands/s, sent / with those of scripts | Enter, ms | Leave, ms | After the deadline, ms | Hand-on, ms | Restart to hand-on, s |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, size := range s.sizes {
		f, err := b.measure(ctx, size)
		if err != nil {
			return fmt.Errorf("with %d waiting: %w", size, err)
		}
		fmt.Printf("| %d | %.2f %% | %.1f / %.1f | %s | %s | %s | %s | %.1f |\n", f.Waiting, 100*f.CPU, f.Sent, f.Executed, f.Enter, f.Leave, f.Deadline, f.HandOn, f.Restart)
		all = append(all, f)
	}
	if s.json != "" {
		data, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			err = os.WriteFile(s.json, append(data, '\n'), 0o600)
		}
		if err != nil {
			return err
		}
	}
	if s.plot != "" {
		return draw(s.plot, all)
	}
	return nil
}
