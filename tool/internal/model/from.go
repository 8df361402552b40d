package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// From is the command `granary model --from`.
var From = cli.Command{
	Name: "model", Usage: "--from FILE|PORT [options]",
	Summary: "show the memory that the data of a dump file or a running Redis needs under each allocator",
	About: "A dump is read once, value by value. From a running server the command reads as many keys as --sample states, and 20 elements of each value, " +
		"and scales the result up. The server is a port of this machine, HOST:PORT or the path of a socket; its password is in REDISCLI_AUTH. Limits are those of --server, or of the running server.",
	Examples: []cli.Example{
		{Line: "model --from /var/lib/redis/dump.rdb", Does: "by structure and allocator, and what other limits would save"},
		{Line: "model --from 6379 --sample 50000", Does: "by structure and allocator, from a running server"},
	},
	Setup: fromSetup,
}

func fromSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	from := fs.String("from", "", "a dump `file`, or the port of a running server")
	most := fs.String("sample", "10000", "read about so many `keys` of a running server")
	server := fs.String("server", "", "the `release` (default: that of the dump or server, or the nearest known): "+strings.Join(serverNames(), ", "))
	limits := limitFlags(fs)
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		if *from == "" {
			return cli.Usagef("name the data: `granary model --from dump.rdb`, `granary model --from 6379`, or without data `granary model redis --keys 15M`")
		}
		keys, err := parseCount("sample", *most, 1e9)
		if err != nil || keys == 0 {
			return errors.Join(err, cli.Usagef("--sample takes 1 or more"))
		}
		source := source{*from, keys, *server, limits, env.Getenv("REDISCLI_AUTH")}
		return o.run(ctx, env, source.account)
	})
}

type source struct {
	from     string
	sample   uint64
	server   string
	limits   func(*redis.Limits)
	password string
}

func (s source) account(ctx context.Context, allocators []cost.Allocator) (Account, error) {
	if _, err := strconv.ParseUint(s.from, 10, 16); err == nil {
		return s.live(ctx, allocators)
	}
	info, err := os.Stat(s.from)
	switch {
	case err == nil && info.Mode()&os.ModeSocket != 0, err != nil && strings.Contains(s.from, ":"):
		return s.live(ctx, allocators)
	case err != nil:
		return Account{}, fmt.Errorf("the dump of Redis (`redis-cli config get dir` and dbfilename name it): %w", err)
	case !info.Mode().IsRegular():
		return Account{}, fmt.Errorf("%s is no file: give a dump file or a port", s.from)
	}
	return s.dump(allocators)
}

// release returns the model that the user named, else the one for the server's version.
func (s source) release(version string, valkey bool) (redis.Server, string, error) {
	if s.server != "" {
		server, err := redis.Find(s.server)
		if err != nil {
			err = cli.Usagef("%v", err)
		}
		return server, "", err
	}
	server, near := redis.Nearest(version, valkey)
	if near {
		return server, "", nil
	}
	return server, fmt.Sprintf("%s has no model of its own: the structures are those of %s.", version, server.Name), nil
}

func (s source) dump(allocators []cost.Allocator) (Account, error) {
	head, err := s.read(redis.Servers[0], func(redis.DumpKey) error { return errEnough })
	if err != nil && !errors.Is(err, errEnough) {
		return Account{}, err
	}
	server, note, err := s.release(head.Server, head.Valkey)
	if err != nil {
		return Account{}, err
	}
	s.limits(&server.Limits)
	p := redis.NewPopulation(server, reference(allocators))
	p.Keyspace.Loaded = true
	info, err := s.read(server, func(k redis.DumpKey) error {
		p.Key(k.Name, k.Expires)
		if k.Value == nil {
			p.Unknown["module"]++
		} else {
			p.Add(k.Value, 1)
		}
		return nil
	})
	if err != nil {
		return Account{}, err
	}
	a := populated(fmt.Sprintf("%s: %s, as %s stores them", s.from, keysInWords(info.Keys), server.Name), p, allocators)
	if info.Used > 0 {
		a.Facts = append(a.Facts, Fact{"memory in use when it was written", float64(info.Used), "bytes"})
	}
	a.Notes = append(notes(p), withoutEmpty(note)...)
	return a, nil
}

var errEnough = errors.New("enough")

func (s source) read(server redis.Server, each func(redis.DumpKey) error) (redis.Info, error) {
	file, err := os.Open(s.from)
	if err != nil {
		return redis.Info{}, fmt.Errorf("the dump cannot be read: %w", err)
	}
	defer file.Close()
	return redis.ReadDump(file, s.from, server, each)
}

func (s source) live(ctx context.Context, allocators []cost.Allocator) (Account, error) {
	conn, err := redis.Dial(ctx, s.from, s.password)
	if err != nil {
		return Account{}, err
	}
	defer conn.Close()
	version, valkey := conn.Version()
	server, note, err := s.release(version, valkey)
	if err != nil {
		return Account{}, err
	}
	conn.Limits(ctx, &server.Limits)
	s.limits(&server.Limits)
	p := redis.NewPopulation(server, reference(allocators))
	read, err := conn.Fill(ctx, p, s.sample)
	if err != nil {
		return Account{}, err
	}
	a := populated(fmt.Sprintf("the server at %s: %s, from %s of them", s.from, keysInWords(p.Keyspace.Keys), term.Count(read)), p, allocators)
	used, allocator := conn.Used()
	a.Facts = append(a.Facts, Fact{"memory in use as the server says, under " + allocator, used, "bytes"})
	a.Notes = append(notes(p), withoutEmpty(note)...)
	return a, nil
}

// notes list the values that the model leaves out.
func notes(p *redis.Population) (out []string) {
	for kind, count := range p.Unknown {
		out = append(out, fmt.Sprintf("%s values of the kind %s are left out: only a module knows their structure.", term.Count(count), kind))
	}
	slices.Sort(out)
	return out
}

func withoutEmpty(lines ...string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}
