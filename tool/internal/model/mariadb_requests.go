// The requests of a MariaDB connection that has run a statement and waits for the next one.
// docs/design/model.md explains how these requests were measured.

package model

import "github.com/granary-allocator/granary/tool/internal/model/cost"

// mariadbSettings are the server's variables that a connection's memory depends on.
type mariadbSettings struct {
	NetBuffer        uint64 // net_buffer_length
	QueryBlock       uint64 // query_alloc_block_size
	TransactionBlock uint64 // transaction_alloc_block_size
	Stack            uint64 // thread_stack
}

// usualMariaDB are the defaults of MariaDB 10.11.
var usualMariaDB = mariadbSettings{16 << 10, 32 << 10, 8 << 10, 299008}

// session is the connection's own object (THD).
const sessionBytes = 27400

// A buffer has room for the header of a packet and for the allocator's wrapper; a block leaves room for the
// allocator's header.
const bufferExtra, blockLess = 32, 8

// fixed are the requests that no variable changes, and their numbers.
var fixed = map[uint64]float64{40: 1, 120: 1, 152: 1, 216: 1, 280: 4, 344: 1, 520: 1, 1016: 2, 1048: 1}

// Session is the object, Buffers those for packets, Blocks those that statements and transactions
// allocate from, Small the rest, each of one connection.
func (s mariadbSettings) Session() cost.Heap { return cost.Heap{sessionBytes: 1} }

// Buffers are for the network, and for the result's row.
func (s mariadbSettings) Buffers() cost.Heap { return cost.Heap{s.NetBuffer + bufferExtra: 2} }

// Blocks are the first ones of the two arenas.
func (s mariadbSettings) Blocks() cost.Heap {
	h := cost.Heap{}
	h.Add(s.QueryBlock-blockLess, 1)
	h.Add(s.TransactionBlock-blockLess, 1)
	return h
}

// Small are the others.
func (s mariadbSettings) Small() cost.Heap {
	h := cost.Heap{}
	for size, count := range fixed {
		h.Add(size, count)
	}
	return h
}
