package inspect

// HeapBytes is the memory that the heap occupies by the library's figures: spans in use without their
// clean pages, dirty spans, and metadata. Blocks that the program never touched are included.
func (s *Snapshot) HeapBytes() uint64 {
	if s == nil {
		return 0
	}
	counter := func(name string) uint64 { v, _ := s.Value(name); return v }
	used := counter("used_spans")
	return used - min(used, counter("slab_clean")) + counter("dirty") + counter("metadata_used")
}

// Fragmentation is the fragmentation ratio: HeapBytes for each live byte, 1 at best; 0 of a heap
// without live bytes.
func (s *Snapshot) Fragmentation() float64 {
	if s == nil {
		return 0
	}
	live, _ := s.Value("live")
	if live == 0 {
		return 0
	}
	return float64(s.HeapBytes()) / float64(live)
}
