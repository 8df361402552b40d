package model

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

func TestContainersAskForWhatIsReported(t *testing.T) {
	program := filepath.Join(t.TempDir(), "containers")
	if out, err := exec.Command("g++", "-std=c++20", "-O1", "-o", program, "testdata/container/containers.cc").CombinedOutput(); err != nil {
		t.Skipf("g++: %v\n%s", err, out)
	}
	for _, count := range []uint64{0, 1, 2, 13, 14, 1000, 5087, 5088, 700_000} {
		out, err := exec.Command(program, strconv.FormatUint(count, 10)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			var kind, key, value string
			var bytes, blocks float64
			if _, err := fmt.Sscan(line, &kind, &key, &value, &bytes, &blocks); err != nil {
				t.Fatal(err)
			}
			s := containerSpec{Kind: kind, Count: count}
			if s.Key, err = parseElement(key); err == nil {
				s.Value, err = parseElement(value)
			}
			if err != nil {
				t.Fatal(err)
			}
			all := cost.Heap{}
			for _, h := range []cost.Heap{s.Nodes(), s.Tables(), s.Strings()} {
				all.Merge(h, 1)
			}
			if sum := cost.Glibc.Of(all); sum.Requested != bytes || sum.Blocks != blocks {
				t.Errorf("%d of %s<%s, %s>: %.0f bytes in %.0f blocks, said is %.0f in %.0f", count, kind, key, value, bytes, blocks, sum.Requested, sum.Blocks)
			}
		}
	}
}
