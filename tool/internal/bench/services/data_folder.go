package services

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/scenario"
)

// A database is a server whose data folder is made and filled once, without any contender; each visit starts on a copy.
type database struct {
	program string
	owner   func() string // of the data, as the server refuses root
	becomes bool          // the server must be started as the owner; else it becomes that by itself
	args    func(dir, data string) []string
	limit   time.Duration  // until it is ready
	grace   time.Duration  // until it has ended
	signal  syscall.Signal // that asks it to end
	tree    bool
	create  func(ctx context.Context, shared *scenario.Shared, data string) error // makes an empty data folder
	ready   func(ctx context.Context, shared *scenario.Shared, dir string) error
	fill    func(ctx context.Context, shared *scenario.Shared) error // of the server in the shared folder
}

// user is whom the server is started as; empty is the tool's own.
func (d database) user() string {
	if d.becomes {
		return d.owner()
	}
	return ""
}

// prepare makes the folder that visits copy.
func (d database) prepare(ctx context.Context, shared *scenario.Shared) error {
	data := filepath.Join(shared.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := scenario.Give(shared.Dir, d.owner()); err != nil {
		return err
	}
	if err := d.create(ctx, shared, data); err != nil {
		return err
	}
	var credential *syscall.Credential
	if d.becomes {
		var err error
		if credential, err = scenario.Credential(d.owner()); err != nil {
			return err
		}
	}
	server, err := measure.Start(measure.Spec{
		Path: shared.Paths[d.program], Args: d.args(shared.Dir, data), Env: measure.Clean(shared.Environ), Dir: shared.Dir,
		Log: filepath.Join(shared.Dir, d.program+".log"), Credential: credential,
	})
	if err != nil {
		return err
	}
	defer server.StopBy(d.signal, d.grace)
	if err := server.WaitReady(ctx, d.program, d.limit, func(ctx context.Context) error { return d.ready(ctx, shared, shared.Dir) }); err != nil {
		return err
	}
	return d.fill(ctx, shared)
}

// start starts the server of a visit on a copy.
func (d database) start(ctx context.Context, v *scenario.Visit) error {
	data := filepath.Join(v.Dir, "data")
	if _, err := v.Tool(ctx, "/bin/cp", "-a", filepath.Join(v.Shared.Dir, "data"), data); err != nil {
		return err
	}
	if err := scenario.Give(v.Dir, d.owner()); err != nil {
		return err
	}
	return v.Start(ctx, scenario.ServerSpec{
		Name: d.program, Path: v.Paths[d.program], Args: d.args(v.Dir, data), User: d.user(), Tree: d.tree,
		Ready: func(ctx context.Context) error { return d.ready(ctx, v.Shared, v.Dir) }, ReadyLimit: d.limit, Grace: d.grace, Signal: d.signal,
	})
}
