// Command blackhole drops the packets that a container sends to some addresses (add), and lets them through again
// (del): a partition between containers that keep their addresses. It runs in the network of that container, changes
// the routes there, and needs NET_ADMIN for that. What is done already is no error.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
)

func main() {
	if len(os.Args) < 3 || (os.Args[1] != "add" && os.Args[1] != "del") {
		fmt.Fprintln(os.Stderr, "usage: blackhole add|del ADDRESS…")
		os.Exit(2)
	}
	change, done := netlink.RouteAdd, syscall.EEXIST
	if os.Args[1] == "del" {
		change, done = netlink.RouteDel, syscall.ESRCH
	}
	for _, address := range os.Args[2:] {
		if err := to(address, change); err != nil && !errors.Is(err, done) {
			fmt.Fprintf(os.Stderr, "blackhole: %s: %v\n", address, err)
			os.Exit(1)
		}
	}
}

// to changes the route that drops the packets to an address.
func to(address string, change func(*netlink.Route) error) error {
	ip := net.ParseIP(address)
	if ip == nil {
		return errors.New("not an address")
	}
	if short := ip.To4(); short != nil {
		ip = short
	}
	return change(&netlink.Route{Dst: &net.IPNet{IP: ip, Mask: net.CIDRMask(8*len(ip), 8*len(ip))}, Type: syscall.RTN_BLACKHOLE})
}
