package connection

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestServerName: with one URL every server is verified by the URL's name, as the nodes of a cluster are known by
// addresses. Of several servers each has its own name, and a master that sentinels tell has not that of a sentinel.
func TestServerName(t *testing.T) {
	t.Parallel()
	one, two := "rediss://a.example:6379", "rediss://b.example:6379"
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"one server":              {Options{URLs: []string{one}}, "a.example"},
		"a cluster by one URL":    {Options{URLs: []string{one}, Cluster: true}, "a.example"},
		"a cluster by two URLs":   {Options{URLs: []string{one, two}}, ""},
		"a master by a sentinel":  {Options{URLs: []string{one}, SentinelMaster: "m"}, ""},
		"a master by two of them": {Options{URLs: []string{one, two}, SentinelMaster: "m"}, ""},
	} {
		client, err := c.options.Client()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		var got string
		switch client := client.(type) {
		case *redis.Client:
			got = client.Options().TLSConfig.ServerName
		case *redis.ClusterClient:
			got = client.Options().TLSConfig.ServerName
		}
		if got != c.want {
			t.Errorf("%s: verified as %q, want %q", name, got, c.want)
		}
	}
}
