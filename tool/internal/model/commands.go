package model

import "github.com/granary-allocator/granary/tool/internal/cli"

// Commands are the rows of `granary model`, a subject each.
var Commands = []cli.Command{From, Redis, Rax, Memcached, Container, MariaDB}
