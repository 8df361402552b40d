// Command granary runs programs under the Granary allocator and measures it against others.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"granary/tool/internal/bench/micro"
	"granary/tool/internal/bench/redis"
	"granary/tool/internal/cli"
	"granary/tool/internal/preload"
)

// version is set by the linker.
var version = "dev"

var commands = []cli.Command{
	{Name: "run", Usage: "[--lib PATH] [--] CMD [ARG...]", Summary: "run a program under Granary", Run: preload.Command},
	{Name: "bench redis", Usage: "[options]", Summary: "compare allocators under a real redis-server", Run: redis.Command},
	{Name: "bench micro", Usage: "[options]", Summary: "compare allocators with small programs of known shapes", Run: micro.Command},
	{Name: "version", Summary: "print the version", Run: printVersion},
	{Name: "help", Summary: "print this list"}, // Main answers it: it needs the table
}

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, cli.Live(version), commands, os.Args[1:])
}

func printVersion(_ context.Context, env cli.Env, _ []string) error {
	_, err := fmt.Fprintf(env.Stdout, "granary %s\n", env.Version)
	return err
}
