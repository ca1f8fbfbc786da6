package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// owner is the label with the id of the process that made a container or network.
const owner = "hap-worker.test"

// loopback is the address at which containers publish their ports and tests connect.
const loopback = "127.0.0.1"

// poll is the time between two readiness checks.
const poll = 200 * time.Millisecond

// stopGrace is the time that a container has to stop before it is killed. A worker first
// finishes the events in progress.
const stopGrace = 30 * time.Second

// prepare sets up testcontainers-go so that it works on every machine. It disables the reaper, whose image may not be
// available. It sets the host, because the library chooses another one on a machine that it mistakes for a container.
// Environment variables that are set already stay as they are.
func prepare() error {
	log.SetDefault(log.NewNoopLogger())
	for variable, value := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": loopback,
	} {
		if os.Getenv(variable) == "" {
			if err := os.Setenv(variable, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// docker is a connection to the container engine.
type docker struct{ *testcontainers.DockerClient }

func connect(ctx context.Context) (docker, error) {
	c, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return docker{}, fmt.Errorf("docker: %w", err)
	}
	return docker{c}, nil
}

// labels mark the containers and networks of this process.
func labels() map[string]string { return map[string]string{owner: strconv.Itoa(os.Getpid())} }

// sweep removes containers and networks of processes that have ended: a killed process
// cannot clean up.
func (d docker) sweep(ctx context.Context) error {
	marked := client.Filters{}.Add("label", owner)
	found, err := d.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: marked})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range found.Items {
		if Gone(c.Labels[owner]) {
			_, err := d.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			errs = append(errs, err)
		}
	}
	networks, err := d.NetworkList(ctx, client.NetworkListOptions{Filters: marked})
	errs = append(errs, err)
	for _, n := range networks.Items {
		if Gone(n.Labels[owner]) {
			_, err := d.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Gone reports whether no process has this id. It is also true of an id that is no number.
func Gone(id string) bool {
	pid, err := strconv.Atoi(id)
	return err != nil || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// newNetwork creates a private network.
func newNetwork(ctx context.Context) (*testcontainers.DockerNetwork, error) {
	return tcnetwork.New(ctx, tcnetwork.WithLabels(labels()))
}

// spec describes a container to start.
type spec struct {
	image    string
	command  []string
	networks map[string][]string // aliases, by network
	ports    map[int]int         // container -> host, on the loopback address
	files    map[string][]byte   // content by path; any user may read, and not write them
	kept     map[string][]byte   // content by path; any user may read and write them
	env      map[string]string
}

// start starts a container. If it fails after the container was created, it also returns the
// container.
func start(ctx context.Context, s spec) (*container, error) {
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd(s.command...), testcontainers.WithLabels(labels()), testcontainers.WithEnv(s.env),
	}
	for name, aliases := range s.networks {
		options = append(options, tcnetwork.WithNetworkName(aliases, name))
	}
	options = append(options, published(s.ports)...)
	for mode, files := range map[int64]map[string][]byte{0o444: s.files, 0o666: s.kept} {
		for path, content := range files {
			options = append(options, testcontainers.WithFiles(testcontainers.ContainerFile{
				Reader: bytes.NewReader(content), ContainerFilePath: path, FileMode: mode,
			}))
		}
	}
	c, err := testcontainers.Run(ctx, s.image, options...)
	if c == nil {
		return nil, fmt.Errorf("start %s: %w", s.image, err)
	}
	if err != nil {
		err = fmt.Errorf("start %s: %w", s.image, err)
	}
	return &container{c}, err
}

// published maps container ports to ports of the loopback address.
func published(ports map[int]int) (options []testcontainers.ContainerCustomizer) {
	for inside, outside := range ports {
		port := fmt.Sprintf("%d/tcp", inside)
		options = append(options, testcontainers.WithExposedPorts(port))
		options = append(options, testcontainers.WithHostConfigModifier(func(c *dockercontainer.HostConfig) {
			c.PortBindings = network.PortMap{
				network.MustParsePort(port): {{HostIP: netip.MustParseAddr(loopback), HostPort: strconv.Itoa(outside)}},
			}
		}))
	}
	return options
}

// container is a started container.
type container struct {
	*testcontainers.DockerContainer
}

// await repeats check until it succeeds, the container ends, or ctx is done.
func (c *container) await(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		state, stateErr := c.State(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("the container has ended with code %d: %w\n%s", state.ExitCode, err, c.tail(ctx))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), err, c.tail(context.WithoutCancel(ctx)))
		case <-tick.C:
		}
	}
}

// tail returns the last 4 KiB of the container's output, or why it cannot be read.
func (c *container) tail(ctx context.Context) string {
	const size = 4 << 10
	content, err := c.log(ctx)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-size):])
}

func (c *container) log(ctx context.Context) ([]byte, error) {
	logs, err := c.Logs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	return io.ReadAll(logs)
}

// runs starts a program inside the container, and returns nil if it exits with code 0.
func (c *container) runs(ctx context.Context, command ...string) error {
	code, output, err := c.Exec(ctx, command)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(output)
	if err == nil && code != 0 {
		err = fmt.Errorf("%v: exit code %d: %s", command, code, said)
	}
	return err
}

// read returns the content of a file of the container.
func (c *container) read(ctx context.Context, path string) ([]byte, error) {
	file, err := c.CopyFileFromContainer(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// kill stops the container at once, like a crash, and returns when it has ended. Its files stay.
func (c *container) kill(ctx context.Context, d docker) error {
	_, err := d.ContainerKill(ctx, c.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"})
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		state, err := c.State(ctx)
		if err == nil && state.Running {
			err = errors.New("the container still runs after SIGKILL")
		}
		return err
	})
}

// stop asks the container to stop, and kills it after stopGrace.
func (c *container) stop(ctx context.Context) error {
	grace := stopGrace
	return c.Stop(ctx, &grace)
}

// remove kills the container and deletes its files. On a nil container it does nothing.
func (c *container) remove(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.Terminate(ctx, testcontainers.StopTimeout(0))
}

// cut disconnects the container from a network; its packets are then lost.
func (c *container) cut(ctx context.Context, d docker, from *testcontainers.DockerNetwork) error {
	_, err := d.NetworkDisconnect(ctx, from.ID, client.NetworkDisconnectOptions{Container: c.GetContainerID()})
	return err
}

// join reconnects the container to the network.
func (c *container) join(ctx context.Context, d docker, to *testcontainers.DockerNetwork) error {
	_, err := d.NetworkConnect(ctx, to.ID, client.NetworkConnectOptions{
		Container: c.GetContainerID(), EndpointConfig: &network.EndpointSettings{},
	})
	return err
}

// until repeats check until it succeeds or ctx is done.
func until(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// FreePorts returns n free ports that the kernel does not hand out by itself (see stack.FreePort). Containers publish
// such ports, because a port that the engine chose would change at a restart.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = stack.FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}
