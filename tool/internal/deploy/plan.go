package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A plan is the set of changes that enable a unit.
type plan struct {
	unit   unit
	drop   dropIn
	path   string   // of the drop-in, inside the root
	notes  []string // further notes for the user
	before string   // the text of the previous drop-in, or ""
}

// attempt is the input of the obstacles.
type attempt struct {
	root    string
	etc     string // the folder of drop-ins, below root
	live    bool
	proc    procfs.FS
	unit    unit
	library string
}

// file is a path of the system at root.
func (a attempt) file(path string) string { return filepath.Join(a.root, path) }

// obstacles are checks in the order they run. Each returns a message that says why the library cannot
// be preloaded into a unit, or an empty string.
var obstacles = []func(attempt) string{masked, runsNothing, cleansEnvironment, ownRoot, hiddenHome, hiddenTmp, unreadable, unreachable}

func masked(a attempt) string {
	switch a.unit.properties["LoadState"] {
	case "masked":
		return fmt.Sprintf("%s is masked, so it cannot start: `systemctl unmask %s` first", a.unit.id, a.unit.id)
	case "loaded", "":
		return ""
	}
	return fmt.Sprintf("systemd cannot load %s (%s): `systemctl status %s` says why", a.unit.id, a.unit.properties["LoadState"], a.unit.id)
}

// umbrellas are commands that exit immediately: a unit with such a command only groups other units.
var umbrellas = []string{"true", "sh", "echo", "exit"}

func runsNothing(a attempt) string {
	if a.unit.is("Type", "oneshot") && slices.Contains(umbrellas, filepath.Base(a.unit.program())) {
		return fmt.Sprintf("%s runs no process of its own: name the unit that does, as in postgresql@15-main", a.unit.id)
	}
	return ""
}

func cleansEnvironment(a attempt) string {
	if filepath.Base(a.unit.program()) != "pg_ctlcluster" {
		return ""
	}
	cluster := strings.TrimSuffix(strings.TrimPrefix(a.unit.id, "postgresql@"), suffix)
	return fmt.Sprintf("pg_ctlcluster passes none of a unit's variables on to PostgreSQL: write LD_PRELOAD = '%s' into /etc/postgresql/%s/environment and restart %s",
		a.library, strings.Replace(cluster, "-", "/", 1), a.unit.id)
}

func ownRoot(a attempt) string {
	for _, name := range []string{"RootDirectory", "RootImage"} {
		if dir := a.unit.properties[name]; dir != "" && dir != "/" {
			return fmt.Sprintf("%s runs in a root of its own (%s=%s): put the library there, and set LD_PRELOAD by `systemctl edit %s`", a.unit.id, name, dir, a.unit.id)
		}
	}
	return ""
}

const elsewhere = "install it where every service may read it, as /usr/local/lib (`make install`)"

func hiddenHome(a attempt) string {
	hides := a.unit.properties["ProtectHome"]
	if hides != "" && hides != "no" && hides != "false" && hides != "read-only" && within(a.library, []string{"/home", "/root", "/run/user"}) >= 0 {
		return fmt.Sprintf("%s cannot read home folders (ProtectHome=%s), and the library is in one, %s: %s", a.unit.id, hides, a.library, elsewhere)
	}
	return ""
}

func hiddenTmp(a attempt) string {
	private := a.unit.properties["PrivateTmp"]
	if private != "" && private != "no" && private != "false" && within(a.library, []string{"/tmp", "/var/tmp"}) >= 0 {
		return fmt.Sprintf("%s has a /tmp of its own (PrivateTmp=%s), where %s is not: %s", a.unit.id, private, a.library, elsewhere)
	}
	return ""
}

// unreadable finds the folder or file that the unit's user may not read.
func unreadable(a attempt) string {
	if user := a.unit.properties["User"]; (user == "" || user == "root") && !a.unit.is("DynamicUser", "yes") {
		return ""
	}
	for path := a.library; path != "/" && path != "."; path = filepath.Dir(path) {
		info, err := os.Stat(a.file(path))
		if err != nil {
			return fmt.Sprintf("%s cannot be read: %v", path, err)
		}
		need := os.FileMode(0o004)
		if info.IsDir() {
			need = 0o001
		}
		if info.Mode().Perm()&need == 0 {
			return fmt.Sprintf("%s runs as %s, who may not read %s: %s", a.unit.id, a.unit.properties["User"], path, elsewhere)
		}
	}
	return ""
}

// unreachable asks whether the loader would take the library: of the running process, else of what
// the unit starts.
func unreachable(a attempt) string {
	program, name := a.file(a.unit.program()), a.unit.program()
	if pid := a.unit.number("MainPID"); pid > 0 && a.live {
		program = a.proc.Path(pid, "exe")
		if path, err := os.Readlink(program); err == nil {
			name = path
		}
	}
	if name == "" {
		return ""
	}
	if _, err := os.Stat(program); !a.live && isGone(err) {
		return fmt.Sprintf("%s, which %s starts, is not below %s: install it there, or name the folder that holds the whole system", name, a.unit.id, a.root)
	}
	if err := preload.Check(program, a.file(a.library), preload.Credentials{}, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return strings.ReplaceAll(err.Error(), program, name)
	}
	return ""
}

// hindered is the first obstacle as an error.
func hindered(a attempt) error {
	for _, o := range obstacles {
		if message := o(a); message != "" {
			return fmt.Errorf("%s", message)
		}
	}
	return nil
}

// others returns the libraries that the unit already preloads and that stay behind Granary's. It drops
// other allocators, because a process uses only the first one.
func others(a attempt) (keep, notes []string) {
	for _, path := range strings.FieldsFunc(a.unit.environment("LD_PRELOAD"), separator) {
		if strings.HasPrefix(filepath.Base(path), "libgranary.") {
			continue
		}
		if f, err := inspect.AllocatorInFile(a.file(path)); err == nil && f.DefinesMalloc {
			notes = append(notes, fmt.Sprintf("%s preloads %s, another allocator: the drop-in leaves it out", a.unit.id, path))
			continue
		}
		keep = append(keep, path)
	}
	return keep, notes
}

// makePlan makes every check that is possible before a change.
func makePlan(a attempt, service, version, options string) (plan, error) {
	if err := hindered(a); err != nil {
		return plan{}, err
	}
	keep, notes := others(a)
	p := plan{unit: a.unit, notes: notes, path: dropInPath(a.etc, a.unit.id)}
	p.drop = dropIn{service: service, version: version, preload: append([]string{a.library}, keep...), options: options}
	if a.unit.properties["NoExecPaths"] != "" && !a.mayExecute(p.path) {
		p.drop.execPaths = []string{"-" + a.library}
	}
	if note := aboutUnit(a.unit.id).Note; note != "" {
		p.notes = append(p.notes, note)
	}
	old, err := readDropIn(a.file(p.path))
	switch {
	case isGone(err):
		return p, nil
	case err != nil:
		return p, err
	}
	data, err := os.ReadFile(a.file(p.path))
	p.before, p.drop.service = string(data), firstOf(old.service, service)
	return p, err
}

// mayExecute ignores the paths that an earlier drop-in of this command allowed.
func (a attempt) mayExecute(path string) bool {
	old, err := readDropIn(a.file(path))
	u := unit{properties: map[string]string{"NoExecPaths": a.unit.properties["NoExecPaths"], "ExecPaths": a.unit.properties["ExecPaths"]}}
	if err == nil {
		kept := slices.DeleteFunc(split(u.properties["ExecPaths"]), func(p string) bool {
			return slices.ContainsFunc(old.execPaths, func(before string) bool { return strings.TrimLeft(before, "-") == strings.TrimLeft(p, "-") })
		})
		u.properties["ExecPaths"] = strings.Join(kept, " ")
	}
	real, err := filepath.EvalSymlinks(a.file(a.library))
	if err != nil {
		real = a.library
	}
	return u.mayExecute(a.library) || u.mayExecute(real)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// dropInPath returns the path of a unit's drop-in.
func dropInPath(etc, id string) string { return filepath.Join(etc, id+".d", dropInName) }

// etcUnits is the folder of the administrator's unit files.
const etcUnits = "/etc/systemd/system"
