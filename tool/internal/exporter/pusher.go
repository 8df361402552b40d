package exporter

import (
	"context"
	"log"
	"time"
)

// A pusher sends the metrics at a fixed interval.
type pusher struct {
	collect func() ([]group, time.Time)
	encoder *otlpEncoder
	send    func(context.Context, []byte) error
	every   time.Duration
	log     *log.Logger
}

// run pushes until ctx is done, and once more then.
func (p pusher) run(ctx context.Context) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	failed := ""
	for {
		if err := p.push(ctx); ctx.Err() == nil { // else the end interrupted it, and the last push follows
			failed = p.report(err, failed)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			p.report(p.push(last), failed)
			return
		case <-tick.C:
		}
	}
}

// report logs an error that differs from the last one, and its end.
func (p pusher) report(err error, last string) string {
	switch {
	case err == nil && last != "":
		p.log.Print("the server answers again")
	case err != nil && err.Error() != last:
		p.log.Print(err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func (p pusher) push(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.every)
	defer cancel()
	groups, taken := p.collect()
	requests, err := p.encoder.encode(groups, taken)
	if err != nil {
		return err
	}
	for _, request := range requests {
		if err := p.send(ctx, request); err != nil {
			return err
		}
	}
	return nil
}
