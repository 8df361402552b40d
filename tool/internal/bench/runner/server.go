package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// ServerSpec is a server to start under an allocator.
type ServerSpec struct {
	Name       string // the name in messages
	Path       string
	Args       []string
	Env        []string                    // beside the tool's own, cleaned
	User       string                      // whom it runs as when the tool is root and the server refuses root
	Ready      func(context.Context) error // nil: ready when it runs under the allocator
	ReadyLimit time.Duration               // 30 s when 0
	Grace      time.Duration               // between SIGTERM and SIGKILL; 20 s when 0
	Signal     syscall.Signal              // that asks it to end; SIGTERM when 0
	Once       bool                        // a program that ends by itself: it is measured from its start to its end
	Tree       bool                        // it consists of several processes: all are counted
	Alone      bool                        // its processes are unknown: a remark reports further ones, which are not measured
}

// A Server is a started ServerSpec in a temporary folder.
type Server struct {
	spec    ServerSpec
	proc    procfs.FS
	process *measure.Process
	dir     string
	group   *measure.Group // nil where none can be made
}

func (s *Server) start(ctx context.Context, environ []string, c allocators.Allocator) error {
	if err := preload.Check(s.spec.Path, c.Path, preload.CurrentCredentials(), os.Getenv("PATH")); err != nil {
		return err
	}
	credential, err := s.credential()
	if err != nil {
		return err
	}
	// A server may be linked to another allocator than glibc's. To run it under glibc, libc.so.6 itself
	// is preloaded: the loader already has it, and only moves it to the front of the order of lookup.
	variables := append(c.Variables(true), "LD_BIND_NOW=1")
	environ = append(measure.Clean(environ), s.spec.Env...)
	spec := measure.Spec{
		Path: s.spec.Path, Args: s.spec.Args, Env: environ, Dir: s.dir,
		Log: filepath.Join(s.dir, s.spec.Name+".log"), Credential: credential,
	}
	if s.spec.Once || s.spec.Tree {
		return s.launch(ctx, spec, variables, c)
	}
	spec.Env = append(spec.Env, variables...)
	if s.process, err = measure.Start(spec); err != nil {
		return err
	}
	s.join()
	return s.ready(ctx, c)
}

// ready waits until the server answers, and proves that the allocator is in effect.
func (s *Server) ready(ctx context.Context, c allocators.Allocator) error {
	probe := s.spec.Ready
	if probe == nil {
		probe = func(context.Context) error { return s.verify(c) }
	}
	if err := s.process.WaitReady(ctx, s.spec.Name, s.readyLimit(), probe); err != nil {
		return err
	}
	if err := s.verify(c); err != nil {
		return err
	}
	return s.settled(c)
}

// launch starts a program inside its control group from the first instruction on. One that ends by itself
// may end before its malloc can be read from its memory; then the loader reports which libraries
// it would load.
func (s *Server) launch(ctx context.Context, spec measure.Spec, variables []string, c allocators.Allocator) (err error) {
	if s.process, err = measure.Launch(ctx, s.proc, spec, variables); err != nil {
		return err
	}
	s.join()
	if err = s.process.Begin(); err != nil {
		return err
	}
	s.process.AwaitExec(ctx, s.proc)
	err = s.ready(ctx, c)
	if err == nil || ctx.Err() != nil || !s.spec.Once || !s.process.Ended() {
		return err
	}
	if err := s.settled(c); err != nil {
		return err
	}
	return s.loads(ctx, append(spec.Env, variables...), c)
}

// loads asks the loader whether it would load the allocator into the program. The program does not run.
func (s *Server) loads(ctx context.Context, environ []string, c allocators.Allocator) error {
	listed, err := measure.Output(ctx, s.spec.Path, s.spec.Args, append(environ, "LD_TRACE_LOADED_OBJECTS=1"))
	if err != nil {
		return fmt.Errorf("%s ended before its allocator could be verified, and the loader does not list its libraries: %w", s.spec.Name, err)
	}
	for _, word := range strings.Fields(listed) {
		if path, err := filepath.EvalSymlinks(word); strings.HasPrefix(word, "/") && err == nil && path == c.Path {
			return nil
		}
	}
	return fmt.Errorf("%s did not take effect: the loader does not load it into %s", c.Name, s.spec.Name)
}

// join moves the server into a new memory control group, if one can be made.
func (s *Server) join() {
	g, err := measure.MakeGroup(s.proc)
	if err != nil {
		return
	}
	if err := g.Add(s.PID()); err != nil { // it may have died: then its log gives the reason
		g.Remove()
		return
	}
	s.group = g
}

// groupPeak is the largest memory usage of the server's control group since its last ResetPeak; 0 without a group.
func (s *Server) groupPeak() float64 {
	if s.group == nil {
		return 0
	}
	return s.group.Peak()
}

// leave removes the server's control group after the server has ended.
func (s *Server) leave() {
	if s.group != nil {
		s.group.Remove()
		s.group = nil
	}
}

// refusal matches the messages on standard error with which allocators reject a setting.
var refusal = regexp.MustCompile(`(?m)^(granary: .*(option|GRANARY_CONF|conf).*|<jemalloc>: .*(?i:invalid|conf).*|mimalloc: warning: .*)$`)

// settled refuses an allocator whose settings its allocator did not accept, as its column would be that of
// the plain allocator.
func (s *Server) settled(c allocators.Allocator) error {
	if !strings.Contains(c.Name, ":") {
		return nil
	}
	log, err := s.process.Log()
	if err != nil {
		return err
	}
	if line := refusal.FindString(log); line != "" {
		return fmt.Errorf("a setting of %s did not take effect: %s", c.Name, line)
	}
	return nil
}

func (s *Server) readyLimit() time.Duration {
	if s.spec.ReadyLimit > 0 {
		return s.spec.ReadyLimit
	}
	return time.Minute
}

// credential is the user of the server; nil is the command's own. The user becomes the owner of the folder.
func (s *Server) credential() (*syscall.Credential, error) {
	if s.spec.User == "" {
		return nil, nil
	}
	return Credential(s.spec.User)
}

// Credential is another user, where the tool is root and so may become that; nil is the tool's own.
func Credential(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	return ids(name)
}

func ids(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("the server does not run as root, and there is no user %s: %w", name, err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// verify reads the loader's tables in the running server to find whose malloc and free it calls. It
// retries while a script is still replacing itself by its program.
func (s *Server) verify(c allocators.Allocator) (err error) {
	for range 5 {
		if err = verify(s.proc, s.process.PID(), s.spec.Name, c); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func verify(proc procfs.FS, pid int, name string, c allocators.Allocator) error {
	for _, symbol := range []string{"malloc", "free"} {
		owner, err := preload.Owner(proc, pid, symbol)
		if err != nil {
			owner, err = first(proc, pid, err)
		}
		if err != nil {
			return fmt.Errorf("cannot determine which allocator is in effect: %w", err)
		}
		if owner != c.Path {
			return fmt.Errorf("%s did not take effect: %s calls %s of %s; check that the library defines it", c.Name, name, symbol, owner)
		}
	}
	return nil
}

// first is for programs that call malloc through their libraries only, so that it has no slot in them:
// the first definition in the loader's order.
func first(proc procfs.FS, pid int, otherwise error) (string, error) {
	if !errors.Is(otherwise, preload.ErrNotImported) {
		return "", otherwise
	}
	running, err := inspect.AllocatorOf(proc, pid)
	return running.Path, err
}

// Stop ends the server. It returns after the server has ended.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	grace, signal := s.spec.Grace, s.spec.Signal
	if grace == 0 {
		grace = 20 * time.Second
	}
	if signal == 0 {
		signal = syscall.SIGTERM
	}
	family := s.proc.Tree(s.PID())[1:]
	s.process.StopBy(signal, grace)
	for _, pid := range family { // those that made themselves groups of their own
		if st, err := s.proc.Stat(pid); err == nil && st.State != "Z" {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending
		}
	}
	s.leave()
}

// PID is the process id of the server, the first of a Tree.
func (s *Server) PID() int { return s.process.PID() }

// pids are the processes that are measured.
func (s *Server) pids() []int {
	if s.spec.Tree {
		return s.proc.Tree(s.PID())
	}
	return []int{s.PID()}
}

// CPUSeconds returns the CPU time that the server has used since its start, in seconds. For a Tree it
// includes children that have ended.
func (s *Server) CPUSeconds() (float64, error) {
	first, err := s.proc.Stat(s.PID())
	if err != nil {
		return 0, err
	}
	total := first.CPUSeconds()
	if !s.spec.Tree {
		return total, nil
	}
	total += first.ReapedSeconds
	for _, pid := range s.pids()[1:] {
		if st, err := s.proc.Stat(pid); err == nil { // it may have ended: then its parent has its time
			total += st.CPUSeconds() + st.ReapedSeconds
		}
	}
	return total, nil
}

// Memory returns the memory that the server occupies, in bytes. For a Tree it is the sum of the
// proportional set sizes.
func (s *Server) Memory() (procfs.Memory, error) {
	first, err := s.proc.Memory(s.PID())
	if err != nil || !s.spec.Tree {
		return first, err
	}
	first.RSS = first.PSS
	for _, pid := range s.pids()[1:] {
		if m, err := s.proc.Memory(pid); err == nil { // it may have ended
			first.RSS += m.PSS
			first.PSS += m.PSS
			first.Anonymous += m.Anonymous
			first.HugePages += m.HugePages
		}
	}
	return first, nil
}

// Resident returns the RSS in bytes by a method fast enough for sampling; for a Tree it costs as much as
// Memory.
func (s *Server) Resident() (float64, error) {
	if s.spec.Tree {
		m, err := s.Memory()
		return float64(m.RSS), err
	}
	rss, err := s.proc.Resident(s.PID())
	return float64(rss), err
}

// Alive returns nil while the server runs and does not appear to be ending; otherwise the error describes
// how it ended.
func (s *Server) Alive() error {
	select {
	case <-s.process.Done():
		return s.process.Died(s.spec.Name)
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// explain adds the server's last words to an error that its death caused.
func (s *Server) explain(err error) error {
	if err == nil || s.process == nil {
		return err
	}
	select {
	case <-s.process.Done():
		return s.process.Died(s.spec.Name)
	case <-time.After(100 * time.Millisecond):
		return err
	}
}
