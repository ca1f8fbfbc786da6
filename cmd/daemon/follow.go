package daemon

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"time"
)

// followEvery is how soon a change of a file or directory tree is noticed. Mounts
// of ConfigMaps swap links and trees have many directories, which to watch one by
// one is more than it is worth.
const followEvery = 2 * time.Second

// fingerprint changes with names, sizes and times of what is at a path: a file, or
// a directory with all that is in it. 0 where it cannot be read.
func fingerprint(path string) uint64 {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0
	}
	sum := fnv.New64a()
	err = filepath.WalkDir(target, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(sum, name, info.Size(), info.ModTime().UnixNano())
		return err
	})
	if err != nil {
		return 0
	}
	return sum.Sum64()
}

// followFiles calls changed whenever what is at path is another than it was, seen
// being how it was first, until ctx ends. What changes still is left to the next look.
func followFiles(ctx context.Context, path string, seen uint64, changed func()) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	last := seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := fingerprint(path)
		if now != seen && now == last {
			seen = now
			changed()
		}
		last = now
	}
}
