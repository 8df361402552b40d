package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// How long the packers rest: a thread that does nothing but allocate fills twenty buffers in a millisecond, and few buffers
// stay in the caches.
const (
	leastRest = 125 * time.Microsecond
	mostRest  = 16 * time.Millisecond
	manyFull  = 8
)

// mostPackers bounds the files that are packed at a time; programs that write further ones pack by themselves.
const mostPackers = 64

// livePackers pack the recordings at some paths while they grow.
type livePackers struct {
	paths func() []string
	open  map[string]*livePacker
	ended map[string]bool   // a packer failed there
	gone  map[string]uint64 // when the recording there began, if its process has ended
}

// packLive packs what recorders write to the paths, until the returned function is called.
func packLive(paths func() []string) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		defer ended.Done()
		debug.SetPanicOnFault(true) // somebody may cut a file
		l := &livePackers{paths: paths, open: map[string]*livePacker{}, ended: map[string]bool{}, gone: map[string]uint64{}}
		l.run(done)
	}()
	return func() {
		close(done)
		ended.Wait()
	}
}

func (l *livePackers) run(done <-chan struct{}) {
	rest, looked := time.Millisecond, time.Time{}
	for {
		select {
		case <-done:
			for _, p := range l.open {
				p.close()
			}
			return
		case <-time.After(rest):
		}
		packed := l.sweep()
		if packed >= manyFull {
			rest = max(rest/2, leastRest)
		} else if packed == 0 {
			rest = min(2*rest, mostRest)
		}
		if now := time.Now(); now.Sub(looked) > mostRest {
			looked = now
			l.look()
		}
	}
}

// sweep packs what is full in all files.
func (l *livePackers) sweep() (packed int) {
	for path, p := range l.open {
		n, err := p.sweep()
		packed += n
		if err != nil {
			p.close()
			delete(l.open, path)
			l.ended[path] = true
		}
	}
	return packed
}

// look opens the files that are at the paths now, and closes those of processes that have ended.
func (l *livePackers) look() {
	for path, p := range l.open {
		if p.isOver() {
			p.close()
			delete(l.open, path)
		}
	}
	for _, path := range l.paths() {
		if l.open[path] != nil || l.ended[path] || len(l.open) >= mostPackers || l.gone[path] != 0 && l.gone[path] == startOf(path) {
			continue
		}
		p, err := openPacker(path)
		if err == nil { // else the recorder has not made it yet
			l.open[path] = p
		} else if errors.Is(err, errOver) {
			l.gone[path] = startOf(path)
		}
	}
}

// A livePacker packs the buffers that a program's threads have filled, while the program runs. It writes into the same file,
// which is whole at any time: what a packer does not pack, or leaves behind when it is killed, is read from the buffers.
type livePacker struct {
	path   string
	file   *os.File
	writer writer
	data   []byte // the file
	at     int64  // where the packer's chunk goes on
	end    int64
	out    []byte
}

var errOver = errors.New("its process has ended")

func openPacker(path string) (*livePacker, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	data, err := mapBuffers(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	p := &livePacker{path: path, file: file, data: data}
	p.writer = findWriter(procfs.Live(), *p.header())
	if p.isOver() {
		p.close()
		return nil, errOver
	}
	atomic.StoreUint32(&p.header().Packer, 1)
	return p, nil
}

// isOver reports whether nobody writes into the file: its process has ended, or has another file at the path after an exec.
func (p *livePacker) isOver() bool {
	now, err := os.Lstat(p.path)
	if err == nil {
		mine, err := p.file.Stat()
		if err != nil || !os.SameFile(mine, now) {
			return true
		}
	}
	return !p.writer.isAlive()
}

func mapBuffers(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, headerBytes)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, err
	}
	h, err := readRecordingHeader(head)
	if err != nil {
		return nil, err
	}
	if !hasMagic(head, recordingMagic) || h.Version < versionWithBuffers || uint64(info.Size()-headerBytes)/chunkBytes < h.MaxChunks {
		return nil, errNoTrace
	}
	return unix.Mmap(int(file.Fd()), 0, int(headerBytes+h.MaxChunks*chunkBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (p *livePacker) close() {
	defer p.file.Close()
	defer func() {
		_ = recover() // the file was cut
		_ = unix.Munmap(p.data)
	}()
	atomic.StoreUint32(&p.header().Packer, 0)
}

// header is the header in the file, whose fields have the places that C++ gives them.
func (p *livePacker) header() *recordingHeader {
	return (*recordingHeader)(unsafe.Pointer(&p.data[0]))
}

func (p *livePacker) entry(row int) *uint32 {
	return (*uint32)(unsafe.Pointer(&p.data[bufferTable+4*row]))
}

// sweep packs the buffers that are full. After an error the packer is of no further use.
func (p *livePacker) sweep() (packed int, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the file was cut")
		}
	}()
	rows := min(atomic.LoadUint32(&p.header().Buffers), mostBuffers)
	for row := range int(rows) {
		entry := p.entry(row)
		was := atomic.LoadUint32(entry)
		place := was &^ (1<<bufferStateBits - 1)
		if was-place != bufferFull || !atomic.CompareAndSwapUint32(entry, was, place|bufferIsPacked) {
			continue
		}
		if err := p.pack(uint64(place>>bufferStateBits) * bufferBytes); err != nil {
			atomic.StoreUint32(entry, was) // it stays as it is, and so do further ones
			return packed, err
		}
		atomic.StoreUint32(entry, place|bufferFree)
		packed++
	}
	return packed, nil
}

// pack copies the events of the buffer into a chunk, then clears the buffer: at each moment the file has them.
func (p *livePacker) pack(offset uint64) error {
	if offset+bufferBytes > uint64(len(p.data)-headerBytes) {
		return errors.New("a buffer is behind the end of the file")
	}
	buffer := p.data[headerBytes+offset:][:bufferBytes]
	thread, ticks := binary.LittleEndian.Uint32(buffer), binary.LittleEndian.Uint64(buffer[8:])
	p.out = append(p.out[:0], recordOther|otherThread<<kindBits)
	p.out = binary.AppendUvarint(binary.AppendUvarint(p.out, uint64(thread)), ticks)
	var err error
	if p.out, err = packWords(p.out, buffer[chunkHeaderBytes:], ticks); err != nil {
		return err
	}
	if p.at+int64(len(p.out)) > p.end {
		if err := p.newChunk(); err != nil {
			return err
		}
	}
	if _, err := p.file.WriteAt(p.out, p.at); err != nil {
		return err
	}
	p.at += int64(len(p.out))
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&buffer[chunkHeaderBytes])), 0)
	clear(buffer[chunkHeaderBytes:])
	return nil
}

// newChunk takes the next chunk of the file, as a thread of the program would.
func (p *livePacker) newChunk() error {
	chunks := &p.header().Chunks
	for {
		number := atomic.LoadUint64(chunks)
		if number >= min(p.header().MaxChunks, uint64(len(p.data)-headerBytes)/chunkBytes) {
			return fmt.Errorf("the file has its limit of %d chunks", number)
		}
		// A full disk is an error here, and no hole in a chunk.
		if err := unix.Fallocate(int(p.file.Fd()), 0, headerBytes+int64(number)*chunkBytes, chunkBytes); errors.Is(err, unix.ENOSPC) {
			return err
		}
		if atomic.CompareAndSwapUint64(chunks, number, number+1) {
			p.at = headerBytes + int64(number)*chunkBytes + chunkHeaderBytes // the chunk's own header stays zeros
			p.end = headerBytes + int64(number+1)*chunkBytes
			return nil
		}
	}
}
