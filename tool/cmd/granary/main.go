// Command granary runs programs under the Granary allocator and measures it against others.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"granary/tool/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, cli.Live(version), commands(), os.Args[1:])
}
