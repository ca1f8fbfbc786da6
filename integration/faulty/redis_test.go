package faulty

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// TestRedisLoses tells a lost request from a lost reply by what the server has.
func TestRedisLoses(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	proxy, err := NewRedis(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	options, err := redis.ParseURL(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.Protocol, options.DisableIdentity = -1, 2, true
	client := redis.NewClient(options)
	defer client.Close()
	ctx := context.Background()
	for _, c := range []struct {
		cut   Cut
		fails bool
		want  string
	}{{Pass, false, "1"}, {LoseRequest, true, "1"}, {LoseReply, true, "2"}, {Pass, false, "3"}} {
		if err := client.Ping(ctx).Err(); err != nil { // a connection that has said hello
			t.Fatal(err)
		}
		proxy.Choose(func() Cut { return c.cut })
		err := client.Incr(ctx, "n").Err()
		proxy.Choose(nil)
		if (err != nil) != c.fails {
			t.Errorf("cut %d: the client has %v", c.cut, err)
		}
		if got, _ := server.Get("n"); got != c.want {
			t.Errorf("cut %d: the server has %s, want %s", c.cut, got, c.want)
		}
	}
}

// TestRedisLead leads a client that is connected to another server.
func TestRedisLead(t *testing.T) {
	t.Parallel()
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	proxy, err := NewRedis(first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	options, err := redis.ParseURL(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Protocol, options.DisableIdentity = 2, true
	client := redis.NewClient(options)
	defer client.Close()
	for _, server := range []*miniredis.Miniredis{first, second} {
		proxy.Lead(server.Addr())
		if err := client.Set(t.Context(), "at", server.Addr(), 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, _ := server.Get("at"); got != server.Addr() {
			t.Errorf("the server at %s has %q", server.Addr(), got)
		}
	}
}
