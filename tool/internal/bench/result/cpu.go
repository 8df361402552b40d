package result

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// CPURun begins the comment of a CPU profile of one run.
const CPURun = "run until "

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// CPUFile is the path of the CPU profile of an allocator, below the folder of the results.
func CPUFile(allocator string) string {
	return filepath.Join("cpu", unsafeName.ReplaceAllString(allocator, "-")+".pb.gz")
}

// ReadCPU reads the CPU profile of an allocator from the folder of the results, and how many runs it is of.
// It is nil if there is none.
func ReadCPU(dir, allocator string) (p *profile.Profile, runs int, err error) {
	data, err := os.ReadFile(filepath.Join(dir, CPUFile(allocator)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err == nil {
		p, err = profile.ParseData(data)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the CPU profile of %s: %w", allocator, err)
	}
	for _, c := range p.Comments {
		if strings.HasPrefix(c, CPURun) {
			runs++
		}
	}
	return p, max(1, runs), nil
}

// AddCPU adds the CPU profile of one run to that of its allocator. The file is replaced as a whole.
func AddCPU(dir, allocator string, p *profile.Profile) error {
	prior, _, err := ReadCPU(dir, allocator)
	if err != nil {
		return err
	}
	if prior != nil {
		if p, err = profile.Merge([]*profile.Profile{prior, p}); err != nil {
			return fmt.Errorf("add to the CPU profile of %s: %w", allocator, err)
		}
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		return fmt.Errorf("encode the CPU profile of %s: %w", allocator, err)
	}
	path := filepath.Join(dir, CPUFile(allocator))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of the CPU profiles: %w", err)
	}
	if err := os.WriteFile(path+".part", data.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the CPU profile of %s: %w", allocator, err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		return fmt.Errorf("put the CPU profile of %s in place: %w", allocator, err)
	}
	return nil
}
