package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// elements is the maximum number of elements that are read of each value.
const elements = 20

// batch is the number of keys in one request.
const batch = 200

// A Connection is one to a running server.
type Connection struct {
	where  string
	client *goredis.Client
	info   map[string]string
}

// silent discards the client's log; the client also returns the errors.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

// Dial connects to a port of this machine, HOST:PORT, or a socket's path. The password is REDISCLI_AUTH.
func Dial(ctx context.Context, where, password string) (*Connection, error) {
	goredis.SetLogger(silent{})
	options := goredis.Options{Network: "tcp", Addr: where, Password: password, Protocol: 2, MaxRetries: -1, DialTimeout: 3 * time.Second,
		ReadTimeout: 30 * time.Second, DisableIdentity: true, DialerRetries: 1}
	switch _, err := strconv.ParseUint(where, 10, 16); {
	case err == nil:
		options.Addr = net.JoinHostPort("127.0.0.1", where)
	case strings.HasPrefix(where, "/"):
		options.Network = "unix"
	}
	s := &Connection{where: where, client: goredis.NewClient(&options)}
	text, err := s.client.Info(ctx, "everything").Result()
	if err != nil {
		_ = s.client.Close()
		return nil, s.explain(err)
	}
	s.info = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			s.info[name] = value
		}
	}
	return s, nil
}

// Close ends the connection.
func (s *Connection) Close() error { return s.client.Close() }

func (s *Connection) explain(err error) error {
	switch {
	case strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "WRONGPASS"):
		return fmt.Errorf("the server at %s asks for a password: set REDISCLI_AUTH: %w", s.where, err)
	case errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "refused"):
		return fmt.Errorf("no server answers at %s: give the port of a running Redis: %w", s.where, err)
	}
	return fmt.Errorf("the server at %s does not answer as Redis does: %w", s.where, err)
}

// Version is the server's release.
func (s *Connection) Version() (version string, valkey bool) {
	if v := s.info["valkey_version"]; v != "" {
		return v, true
	}
	return s.info["redis_version"], false
}

// Used returns the server's own figure of its memory in use, in bytes, and the name of its allocator.
func (s *Connection) Used() (bytes float64, allocator string) {
	bytes, _ = strconv.ParseFloat(s.info["used_memory"], 64) // 0 if the server does not report it
	return bytes, s.info["mem_allocator"]
}

// Limits sets the limits to the server's configuration; a limit that the user may not read keeps its
// value.
func (s *Connection) Limits(ctx context.Context, l *Limits) {
	for _, limit := range l.Named() {
		values, err := s.client.ConfigGet(ctx, limit.Name).Result()
		if err != nil {
			return
		}
		if n, err := strconv.ParseUint(values[limit.Name], 10, 64); err == nil {
			*limit.Value = n
		}
	}
	if values, err := s.client.ConfigGet(ctx, "list-max-listpack-size").Result(); err == nil {
		if n, err := strconv.ParseInt(values["list-max-listpack-size"], 10, 64); err == nil {
			l.ListNode = n
		}
	}
}

var database = regexp.MustCompile(`^db([0-9]+)$`)
var keyCounts = regexp.MustCompile(`^keys=([0-9]+),expires=([0-9]+)`)

// Fill adds the keys of all databases to p, estimated from a sample of about most keys. It returns the
// number of keys that it read.
func (s *Connection) Fill(ctx context.Context, p *Population, most uint64) (read uint64, err error) {
	type db struct {
		number        int
		keys, expires uint64
	}
	var all []db
	total := uint64(0)
	for name, value := range s.info {
		number, counts := database.FindStringSubmatch(name), keyCounts.FindStringSubmatch(value)
		if number == nil || counts == nil {
			continue
		}
		d := db{}
		d.number, _ = strconv.Atoi(number[1]) // digits
		d.keys, _ = strconv.ParseUint(counts[1], 10, 64)
		d.expires, _ = strconv.ParseUint(counts[2], 10, 64)
		total += d.keys
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b db) int { return a.number - b.number })
	for _, d := range all {
		options := *s.client.Options()
		options.DB = d.number
		client := goredis.NewClient(&options)
		share := max(1, uint64(float64(most)*float64(d.keys)/float64(total)+0.5))
		keys, err := scan(ctx, client, share)
		if err == nil {
			err = add(ctx, client, p, keys, float64(d.keys)/float64(max(1, len(keys))))
		}
		_ = client.Close()
		if err != nil {
			return read, s.explain(err)
		}
		p.Keyspace.Keys += d.keys
		p.Keyspace.Expires += d.expires
		read += uint64(len(keys))
	}
	return read, nil
}

// scan gives the first keys of a SCAN, whose order is that of their hashes, and so random.
func scan(ctx context.Context, client *goredis.Client, most uint64) (keys []string, err error) {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		var page []string
		if page, cursor, err = client.Scan(ctx, cursor, "", batch).Result(); err != nil {
			return nil, err
		}
		for _, key := range page {
			if uint64(len(keys)) < most && !seen[key] {
				seen[key], keys = true, append(keys, key)
			}
		}
		if cursor == 0 || uint64(len(keys)) >= most {
			return keys, nil
		}
	}
}

// add reads the keys and adds each, times over.
func add(ctx context.Context, client *goredis.Client, p *Population, keys []string, times float64) error {
	for part := range slices.Chunk(keys, batch) {
		kinds, err := kindsOf(ctx, client, part)
		if err != nil {
			return err
		}
		if err := addBatch(ctx, client, p, part, kinds, times); err != nil {
			return err
		}
	}
	return nil
}

func kindsOf(ctx context.Context, client *goredis.Client, keys []string) ([]string, error) {
	pipe := client.Pipeline()
	var replies []*goredis.StatusCmd
	for _, key := range keys {
		replies = append(replies, pipe.Type(ctx, key))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var out []string
	for _, a := range replies {
		out = append(out, a.Val())
	}
	return out, nil
}

func addBatch(ctx context.Context, client *goredis.Client, p *Population, keys, kinds []string, times float64) error {
	pipe := client.Pipeline()
	readers, expiry := make([]func(*Value) float64, len(keys)), make([]*goredis.DurationCmd, len(keys))
	for i, key := range keys {
		expiry[i] = pipe.PTTL(ctx, key)
		if ask := questions[kinds[i]]; ask != nil {
			readers[i] = ask(ctx, pipe, key, p.Server)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) && !strings.HasPrefix(err.Error(), "WRONGTYPE") && !strings.HasPrefix(err.Error(), "ERR no such key") {
		return err
	}
	var v Value
	for i, read := range readers {
		p.Name(uint64(len(keys[i])), times)
		switch {
		case kinds[i] == "none": // deleted since
		case read == nil:
			p.Unknown[kinds[i]]++
		default:
			v.Reset(kinds[i])
			share := read(&v)
			v.Key(uint64(len(keys[i])), map[bool]float64{true: 1}[expiry[i].Val() > 0])
			if v.Count > 0 {
				p.Add(&v, times*share)
			}
		}
	}
	return nil
}
