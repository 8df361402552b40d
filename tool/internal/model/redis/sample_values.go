package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// A question queues requests for a value's size and for some of its elements. The function that it returns
// is called after the pipeline ran: it stores the answer in a value and returns how many such values are
// equivalent to the real one.
type question func(ctx context.Context, pipe goredis.Pipeliner, key string, s Server) func(*Value) float64

var questions = map[string]question{
	"string": askString, "list": askList, "set": askSet, "zset": askZset, "hash": askHash, "stream": askStream,
}

// laidOut is the maximum number of elements that are laid out one by one; a larger value is treated as
// several.
const laidOut = 2_000_000

// repeat calls put for each element, in turn with those that were read.
func repeat(count int64, read int, put func(i int)) float64 {
	if count <= 0 || read == 0 {
		return 0
	}
	n := min(count, laidOut)
	for i := range n {
		put(int(i) % read)
	}
	return float64(count) / float64(n)
}

func askString(ctx context.Context, pipe goredis.Pipeliner, key string, _ Server) func(*Value) float64 {
	length, begins := pipe.StrLen(ctx, key), pipe.GetRange(ctx, key, 0, LongestInt)
	return func(v *Value) float64 {
		e := Text(begins.Val())
		if length.Val() > LongestInt {
			e = Element{Len: uint64(length.Val())}
		}
		v.String(e)
		return 1
	}
}

func askList(ctx context.Context, pipe goredis.Pipeliner, key string, s Server) func(*Value) float64 {
	length, some := pipe.LLen(ctx, key), pipe.LRange(ctx, key, 0, elements-1)
	return func(v *Value) float64 {
		read := some.Val()
		return repeat(length.Val(), len(read), func(i int) { v.Push(s, Text(read[i])) })
	}
}

func askSet(ctx context.Context, pipe goredis.Pipeliner, key string, _ Server) func(*Value) float64 {
	length, some := pipe.SCard(ctx, key), pipe.SRandMemberN(ctx, key, elements)
	return func(v *Value) float64 {
		read := some.Val()
		return repeat(length.Val(), len(read), func(i int) { v.Member(Text(read[i])) })
	}
}

func askZset(ctx context.Context, pipe goredis.Pipeliner, key string, _ Server) func(*Value) float64 {
	length, some := pipe.ZCard(ctx, key), pipe.ZRangeWithScores(ctx, key, 0, elements-1)
	return func(v *Value) float64 {
		read := some.Val()
		return repeat(length.Val(), len(read), func(i int) {
			member, _ := read[i].Member.(string) // else it is empty
			v.Scored(Text(member), Score(read[i].Score))
		})
	}
}

func askHash(ctx context.Context, pipe goredis.Pipeliner, key string, _ Server) func(*Value) float64 {
	length, some := pipe.HLen(ctx, key), pipe.HScan(ctx, key, 0, "", elements)
	return func(v *Value) float64 {
		read, _ := some.Val()
		return repeat(length.Val(), len(read)/2, func(i int) { v.Pair(Text(read[2*i]), Text(read[2*i+1])) })
	}
}

func askStream(ctx context.Context, pipe goredis.Pipeliner, key string, s Server) func(*Value) float64 {
	length, some := pipe.XLen(ctx, key), pipe.XRangeN(ctx, key, "-", "+", elements)
	return func(v *Value) float64 {
		read := some.Val()
		if len(read) == 0 {
			return 0
		}
		var fields, names, texts int
		for _, message := range read {
			for name, value := range message.Values {
				text, _ := value.(string) // else it is empty
				fields, names, texts = fields+1, names+len(name), texts+len(text)
			}
		}
		fields = max(fields, 1)
		n := min(uint64(length.Val()), laidOut)
		one, err := Spec{Server: s, Type: "stream", Members: n, Fields: uint64((fields + len(read) - 1) / len(read)),
			Member: Form{Len: uint64(names / fields)}, Value: Form{Len: uint64(texts / fields)}}.One()
		if err != nil {
			return 0
		}
		*v = *one
		return float64(length.Val()) / float64(n)
	}
}
