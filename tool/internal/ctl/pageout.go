package ctl

import (
	"context"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/cold"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/dustin/go-humanize"
)

// The kernel notices accesses by time that is much longer than a sample takes.
const (
	youngest = time.Second
	oldest   = 30 * 24 * time.Hour
)

func pageOut(ctx context.Context, env cli.Env, o settings, pid int) error {
	rate, err := humanize.ParseBytes(o.rate)
	if err != nil || rate < 1<<20 || rate > 1<<40 {
		return cli.Usagef("--rate %q must be a size from 1MiB to 1TiB, as in 64MiB", o.rate)
	}
	if o.older < youngest || o.older > oldest {
		return cli.Usagef("--older must be 1s to 720h (30 days)")
	}
	report := func(s cold.Step) error {
		if o.json {
			return nil
		}
		return s.Write(env.Stdout)
	}
	done, err := cold.Paging{Older: o.older, Rate: rate, Keep: o.keep}.PageOut(ctx, procfs.Live(), pid, report)
	if err != nil {
		return err
	}
	if o.json {
		return term.JSON(env.Stdout, done)
	}
	return done.Write(env.Stdout)
}
