package script

import "github.com/redis/go-redis/v9"

// Lanes are the lanes of a client.
type Lanes struct{ lanes }

// To opens the lane to a server, or uses it again.
func (l *Lanes) To(master *redis.Client) { l.to(master, true) }

// Servers returns the servers that have a lane.
func (l *Lanes) Servers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byServer)
}

// End closes them.
func (l *Lanes) End() { l.close() }
