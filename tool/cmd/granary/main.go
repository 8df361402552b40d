// Command granary runs programs under the Granary allocator and measures it against others.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/granary-allocator/granary"
	"github.com/granary-allocator/granary/tool/internal/cli"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"ps", "--allocator", "granary"}
	}
	return cli.Main(ctx, cli.Live(granary.Version()), commands(), args)
}
