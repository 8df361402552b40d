package procfs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// recorded is the /proc of an idle redis-server.
var recorded = FS{Root: "testdata/proc"}

func TestStatOfRecordedServer(t *testing.T) {
	st, err := recorded.Stat(4242)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != "S" || st.Threads != 5 || st.MinorFaults == 0 {
		t.Errorf("stat = %+v", st)
	}
	if st.CPUSeconds() != st.UserSeconds+st.SysSeconds {
		t.Errorf("CPU time %v is not the sum of its parts", st.CPUSeconds())
	}
}

func TestMemoryOfRecordedServer(t *testing.T) {
	m, err := recorded.Memory(4242)
	if err != nil {
		t.Fatal(err)
	}
	if m.RSS < 8<<20 || m.RSS > 20<<20 || m.Peak < m.RSS || m.PSS > m.RSS || m.Anonymous > m.RSS {
		t.Errorf("memory = %+v", m)
	}
}

func TestHoldingFindsTheMappingOfAnAddress(t *testing.T) {
	maps, err := recorded.Maps(4242)
	if err != nil {
		t.Fatal(err)
	}
	var libc Mapping
	for _, m := range maps {
		if strings.HasSuffix(m.Path, "libc.so.6") && strings.Contains(m.Perms, "x") {
			libc = m
		}
	}
	if libc.Start == 0 {
		t.Fatal("no executable mapping of libc.so.6")
	}
	if got, ok := Holding(maps, libc.End-1); !ok || got != libc {
		t.Errorf("the last byte is in %+v", got)
	}
	if got, _ := Holding(maps, libc.End); got == libc {
		t.Error("the byte past the end is in the mapping")
	}
}

func TestParseMapping(t *testing.T) {
	for _, c := range []struct {
		line string
		want Mapping
		ok   bool
	}{
		{"1000-2000 r-xp 00000010 08:01 5 /a b", Mapping{0x1000, 0x2000, 0x10, "r-xp", "/a b"}, true},
		{"1000-2000 rw-p 00000000 00:00 0", Mapping{0x1000, 0x2000, 0, "rw-p", ""}, true},
		{"nonsense", Mapping{}, false},
		{"x-y rw-p 0 0 0", Mapping{Perms: "rw-p"}, false},
	} {
		got, ok := ParseMapping(c.line)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("ParseMapping(%q) = %+v, %v", c.line, got, ok)
		}
	}
}

func TestAMissingProcessIsAnError(t *testing.T) {
	if _, err := recorded.Stat(1); err == nil || !strings.Contains(err.Error(), "process 1") {
		t.Errorf("err = %v", err)
	}
}

func TestSmapsOfThisProcessAddUp(t *testing.T) {
	regions, err := Live().Smaps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var rss, pss uint64
	for _, r := range regions {
		rss += r.RSS
		pss += r.PSS
		if r.Start >= r.End || r.RSS > r.End-r.Start {
			t.Errorf("region %+v", r)
		}
	}
	if rss == 0 || pss > rss {
		t.Errorf("RSS %d, PSS %d", rss, pss)
	}
}

func TestPagesAgreeWithWhatWasTouched(t *testing.T) {
	size := os.Getpagesize()
	block, err := unix.Mmap(-1, 0, 2000*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(block) }()
	if err := unix.Madvise(block, unix.MADV_NOHUGEPAGE); err != nil {
		t.Logf("huge pages stay possible: %v", err)
	}
	for i := 2; i < 2000; i += 3 { // more stretches than one request returns
		block[i*size] = 1
	}
	block[3*size] = 1
	sum := block[6*size] // a read: the page of zeros
	base := uint64(uintptr(unsafe.Pointer(&block[0])))
	for _, scan := range []bool{true, false} {
		pages, err := Live().Pages(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		pages.noScan = !scan
		got := map[int]bool{}
		err = pages.Resident(base, base+uint64(len(block)), func(start, end uint64) {
			for at := start; at < end; at += pages.PageSize() {
				got[int(at-base)/size] = true
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			zero := i == 6 && !pages.Exact()
			if want := i%3 == 2 || i == 3 || zero; got[i] != want {
				t.Errorf("scan %v: page %d is %v, want %v", scan, i, got[i], want)
			}
		}
		if err := pages.Close(); err != nil {
			t.Error(err)
		}
	}
	if sum != 0 {
		t.Error("a page of zeros is not zero")
	}
}

func TestWhatIsWrongIsReportedClearly(t *testing.T) {
	_, err := Live().Smaps(1 << 30)
	if got := Live().Explain(1<<30, err).Error(); !strings.HasPrefix(got, "there is no process 1073741824: it has ended") {
		t.Error(got)
	}
	denied := fmt.Errorf("read: %w", os.ErrPermission)
	if got := recorded.Explain(4242, denied).Error(); !strings.Contains(got, "process 4242 may not be read: ") || !strings.Contains(got, "CAP_SYS_PTRACE") {
		t.Error(got)
	}
	if got := Live().Explain(1, ErrNoMemory).Error(); !strings.Contains(got, "kernel thread") {
		t.Error(got)
	}
}
