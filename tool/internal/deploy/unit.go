package deploy

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/shlex"
)

// A unit is systemd's data about a service; the properties are named as in `systemctl show`.
type unit struct {
	id         string // "redis-server.service"
	properties map[string]string
}

// wanted are the properties that decide something here.
var wanted = []string{
	"Id", "LoadState", "Type", "ActiveState", "SubState", "Result", "MainPID", "NRestarts", "User", "DynamicUser",
	"Environment", "ExecStart", "NoExecPaths", "ExecPaths", "ProtectHome", "PrivateTmp", "RootDirectory", "RootImage", "DropInPaths",
}

func (u unit) is(name, value string) bool { return u.properties[name] == value }

func (u unit) number(name string) int {
	n, err := strconv.Atoi(u.properties[name])
	if err != nil {
		return 0
	}
	return n
}

func (u unit) active() bool { return u.is("ActiveState", "active") }

// environment is the value of a variable that the unit's files set.
func (u unit) environment(name string) string {
	var out string
	for _, word := range split(u.properties["Environment"]) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			out = value
		}
	}
	return out
}

// program is the file that the unit starts, or "".
func (u unit) program() string {
	start := u.properties["ExecStart"]
	if _, rest, ok := strings.Cut(start, "path="); ok { // { path=/usr/sbin/nginx ; argv[]=... }
		path, _, _ := strings.Cut(rest, " ;")
		return path
	}
	words := split(start)
	if len(words) == 0 {
		return ""
	}
	return strings.TrimLeft(words[0], "-@:+!|")
}

// mayExecute says whether the unit lets code be mapped from path.
func (u unit) mayExecute(path string) bool {
	allowed, denied := within(path, split(u.properties["ExecPaths"])), within(path, split(u.properties["NoExecPaths"]))
	return denied < 0 || allowed >= denied
}

// within is the length of the longest of the folders that hold path, -1 if none does.
func within(path string, folders []string) int {
	longest := -1
	for _, f := range folders {
		f = filepath.Clean(strings.TrimLeft(f, "-+"))
		if f == "/" || path == f || strings.HasPrefix(path, f+"/") {
			longest = max(longest, len(f))
		}
	}
	return longest
}

// split takes a value apart as systemd does: at spaces, with quotes. What it cannot take apart is
// words without quotes.
func split(value string) []string {
	words, err := shlex.Split(value)
	if err != nil {
		return strings.Fields(value)
	}
	return words
}

// overridden returns the drop-ins that systemd reads after Granary's; one of them may set LD_PRELOAD again.
func (u unit) overridden(own string) []string {
	paths := split(u.properties["DropInPaths"])
	i := slices.Index(paths, own)
	if i < 0 {
		return nil
	}
	return paths[i+1:]
}
