package model

import (
	"context"
	"fmt"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Redis is the command `granary model redis`.
var Redis = cli.Command{
	Name: "model redis", Usage: "--keys N [options]",
	Summary: "forecast the memory of a data set in Redis",
	About: "All values are alike. --key, --member and --value take " + redis.FormHelp + ". Members are the elements of sets and sorted sets and the fields of hashes; " +
		"values are strings, elements of lists, and values of fields. The result excludes the server's own 10 MiB, the buffers of clients, and the pages that a snapshot copies.",
	Examples: []cli.Example{
		{Line: "model redis --keys 15M --key uuid --value 100", Does: "strings of 100 bytes"},
		{Line: "model redis --keys 1 --type zset --members 10M --member 20", Does: "one large sorted set"},
		{Line: "model redis --keys 2M --type hash --members 20 --plot redis.svg", Does: "hashes, with a plot over the number of keys"},
	},
	Setup: redisSetup,
}

type redisFlags struct {
	keys, key, kind, members, member, value, fields, server *string
	expires                                                 *float64
	moving                                                  *bool
}

func redisSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	f := redisFlags{
		keys:    fs.String("keys", "", "how many `keys`, as in 20k or 15M"),
		key:     fs.String("key", "uuid", "the `form` of keys"),
		kind:    fs.String("type", "string", "their `type`: "+strings.Join(redis.Types, ", ")),
		members: fs.String("members", "100", "elements of each value, a `number`"),
		member:  fs.String("member", "16", "the `form` of members"),
		value:   fs.String("value", "100", "the `form` of values"),
		fields:  fs.String("fields", "2", "fields of an entry of a stream, a `number`"),
		server:  fs.String("server", redis.Servers[0].Name, "the `release`: "+strings.Join(serverNames(), ", ")),
		expires: fs.Float64("expires", 0, "the `share` of keys that expire, 0 to 1"),
		moving:  fs.Bool("moving", false, "with the main table being moved to one of twice its size"),
	}
	limits := limitFlags(fs)
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		s, err := f.spec()
		if err != nil {
			return err
		}
		limits(&s.Server.Limits)
		return o.run(ctx, env, func(_ context.Context, allocators []cost.Allocator) (Account, error) {
			p, err := s.Population(reference(allocators))
			if err != nil {
				return Account{}, err
			}
			return populated(fmt.Sprintf("%s, %s, %s", keysInWords(s.Keys), s.Type, s.Server.Name), p, allocators), nil
		})
	})
}

func serverNames() (names []string) {
	for _, s := range redis.Servers {
		names = append(names, s.Name)
	}
	return names
}

// limitFlags declares the settings under Redis' own names; the returned function applies those that were given.
func limitFlags(fs *pflag.FlagSet) func(*redis.Limits) {
	given := redis.Servers[0].Limits
	for _, limit := range given.Named() {
		fs.Uint64Var(limit.Value, limit.Name, *limit.Value, "as in redis.conf, a `number`")
	}
	fs.Int64Var(&given.ListNode, "list-max-listpack-size", given.ListNode, "as in redis.conf, a `number`")
	return func(l *redis.Limits) {
		named := l.Named()
		for i, limit := range given.Named() {
			if fs.Changed(limit.Name) {
				*named[i].Value = *limit.Value
			}
		}
		if fs.Changed("list-max-listpack-size") {
			l.ListNode = given.ListNode
		}
	}
}

func (f redisFlags) spec() (s redis.Spec, err error) {
	if s.Keys, err = parseNumber("keys", *f.keys, 1<<40, "keys", "model redis --keys 15M"); err != nil {
		return s, err
	}
	if !redis.KnownType(*f.kind) {
		return s, cli.Usagef("--type %q is not a type of values: choose %s", *f.kind, strings.Join(redis.Types, ", "))
	}
	if *f.expires < 0 || *f.expires > 1 {
		return s, cli.Usagef("--expires %v is not a share: give 0 to 1", *f.expires)
	}
	s.Type, s.Expires, s.Moving = *f.kind, *f.expires, *f.moving
	if s.Server, err = redis.Find(*f.server); err != nil {
		return s, cli.Usagef("%v", err)
	}
	for _, n := range []struct {
		flag, text string
		most       uint64
		to         *uint64
	}{{"members", *f.members, 1e8, &s.Members}, {"fields", *f.fields, 1000, &s.Fields}} {
		if *n.to, err = parseCount(n.flag, n.text, n.most); err != nil {
			return s, err
		}
	}
	if s.Type != "string" && s.Members == 0 {
		return s, cli.Usagef("--members 0 makes empty values, which Redis does not keep: give 1 or more")
	}
	for _, form := range []struct {
		flag, text string
		to         *redis.Form
	}{{"key", *f.key, &s.Key}, {"member", *f.member, &s.Member}, {"value", *f.value, &s.Value}} {
		if *form.to, err = redis.ParseForm(form.text); err != nil {
			return s, cli.Usagef("--%s: %v", form.flag, err)
		}
	}
	if s.Key.Space > 0 && s.Key.Space < float64(s.Keys) {
		return s, cli.Usagef("only %.0f keys have the form %s, and %d are requested: give it more letters", s.Key.Space, s.Key.Text, s.Keys)
	}
	return s, nil
}

func keysInWords(n uint64) string {
	if n == 1 {
		return "1 key"
	}
	return term.Count(n) + " keys"
}

// populated is the account of a population.
func populated(title string, p *redis.Population, allocators []cost.Allocator) Account {
	a := Account{Title: title, Unit: "key", Count: p.Keyspace.Keys, Groups: p.Groups(), Changes: worthwhile(p.Changes())}
	parts := p.Parts()
	for _, name := range redis.PartsInOrder {
		if h := parts[name]; h != nil {
			a.Parts = append(a.Parts, Part{string(name), h})
		}
	}
	a.At = func(n uint64) cost.Heap { return p.At(n).Heap() }
	a.Advice = advice(a, allocators)
	if keys, bytes := p.Keyspace.Growth(); p.Keyspace.Keys > 0 {
		a.Advice = append(a.Advice, fmt.Sprintf("Beyond %s keys the main table is moved to one of %s, and both are there meanwhile.", term.Count(keys), size(float64(bytes))))
	}
	return a
}

// worthwhile leaves of each setting the value that saves most, and one that costs most.
func worthwhile(changes []redis.Change) []redis.Change {
	var out []redis.Change
	best, worst := map[string]bool{}, map[string]int{}
	for i, c := range changes {
		worst[c.Setting] = i
	}
	for i, c := range changes {
		if !best[c.Setting] || worst[c.Setting] == i && c.Saves < 0 {
			best[c.Setting] = true
			out = append(out, c)
		}
	}
	return out
}

// reference is the allocator under which limits are compared: Granary where it is among them.
func reference(allocators []cost.Allocator) cost.Allocator { return allocators[len(allocators)-1] }

// advice is text: it compares the allocators and lists the settings that save memory.
func advice(a Account, allocators []cost.Allocator) (out []string) {
	heap := a.heap()
	least, most := allocators[0], allocators[0]
	for _, other := range allocators {
		if other.Of(heap).Resident < least.Of(heap).Resident {
			least = other
		}
		if other.Of(heap).Resident > most.Of(heap).Resident {
			most = other
		}
	}
	if low, high := least.Of(heap).Resident, most.Of(heap).Resident; high > 1.01*low {
		out = append(out, fmt.Sprintf("%s keeps the least resident, %s %.1f %% more.", least.Name, most.Name, 100*(high/low-1)))
	}
	for _, c := range a.Changes {
		if total := reference(allocators).Of(heap).Resident; c.Saves > 0.02*total {
			out = append(out, fmt.Sprintf("%s %d saves %s of %s under %s; commands on these values then read them from the start.",
				c.Setting, c.To, size(c.Saves), size(total), reference(allocators).Name))
			break
		}
	}
	return out
}
