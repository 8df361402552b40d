package deploy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	option "github.com/granary-allocator/granary/tool/internal/options"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Commands are `granary enable`, `disable` and `status`.
var Commands = []cli.Command{
	{
		Name: "enable", Usage: "SERVICE [options]", Takes: cli.Words, Choices: Names,
		Summary: "put a systemd service under Granary, and revert the change if it does not start",
		About: `SERVICE is one of ` + strings.Join(Names(), ", ") + `,
or any systemd unit. It writes a drop-in, /etc/systemd/system/UNIT.service.d/granary.conf, and changes no
file of a package. With --restart it restarts the service and checks that it starts, runs Granary, and has
a heap with plausible figures. If a check fails, it removes the drop-in, restarts the service as it was,
and shows the end of its log. Where systemd does not run, it prints what to set.`,
		Examples: []cli.Example{
			{Line: "enable mariadb --restart", Does: "restart MariaDB under Granary, and check it"},
			{Line: "enable redis --dry-run", Does: "show the file and the commands"},
			{Line: "enable nginx --option dirty_decay_ms=5000", Does: "with an option; in effect from the next restart on"},
			{Line: "enable mariadb --root /srv/image", Does: "in the image of a system, which is not running"},
		},
		Exits: cli.Exits("enabled now or before", "refused, or reverted: everything is as before"),
		Setup: setupEnable,
	},
	{
		Name: "disable", Usage: "SERVICE|--all [options]", Takes: cli.Words, Choices: Names,
		Summary: "revert granary enable for a service",
		About: `It removes only the file that ` + "`granary enable`" + ` wrote. With --restart it restarts the service,
and checks that the process no longer contains Granary.`,
		Examples: []cli.Example{
			{Line: "disable mariadb --restart", Does: "back to the allocator it had"},
			{Line: "disable --all --restart", Does: "every service, as before the library is removed"},
		},
		Setup: setupDisable,
	},
	{
		Name: "status", Usage: "[SERVICE...] [options]", Takes: cli.Words, Choices: Names,
		Summary: "list the services that were put under Granary, and whether they are healthy",
		About: `Without names it lists every unit that ` + "`granary enable`" + ` wrote a drop-in for: its main process, the
allocator that the process calls, what lives on its heap, and what is wrong, if something is.`,
		Examples: []cli.Example{
			{Line: "status", Does: "all of them"},
			{Line: "status mariadb --json", Does: "one, for a script"},
		},
		Exits: cli.Exits("all that are listed are healthy", "one is not"),
		Setup: setupStatus,
	},
}

type options struct {
	root, lib       string
	set             []string
	restart, dryRun bool
	hardened        bool
	settle, timeout time.Duration
	asJSON          bool
}

func (o *options) place(fs *pflag.FlagSet) {
	fs.StringVar(&o.root, "root", "/", "work on the image of a system in this `folder`; nothing runs there")
}

func (o *options) patience(fs *pflag.FlagSet) {
	fs.BoolVar(&o.restart, "restart", false, "restart the service and check it")
	fs.DurationVar(&o.settle, "settle", 2*time.Second, "with --restart, `duration` for which the service must run before it counts as started")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "with --restart, `duration` to wait for this after systemd has started the service")
}

func setupEnable(fs *pflag.FlagSet) cli.Action {
	var o options
	o.patience(fs)
	fs.StringArrayVar(&o.set, "option", nil, "an option of the library, as `name=value`; may be given again")
	fs.BoolVar(&o.hardened, "hardened", false, "the same as --option hardened=true: check every malloc and free, at a cost")
	fs.BoolVar(&o.dryRun, "dry-run", false, "print the actions, and do nothing")
	fs.StringVar(&o.lib, "lib", "", "the `library` to preload (default: libgranary.so beside this command, or installed)")
	o.place(fs)
	return cli.Arguments(1, 1, "the name of a service, as in `granary enable mariadb`", func(ctx context.Context, env cli.Env, args []string) error {
		return o.enable(ctx, env, args[0])
	})
}

func setupDisable(fs *pflag.FlagSet) cli.Action {
	var o options
	all := fs.Bool("all", false, "every service that is enabled")
	o.patience(fs)
	o.place(fs)
	return func(ctx context.Context, env cli.Env, args []string) error {
		if *all == (len(args) == 1) || len(args) > 1 {
			return cli.Usagef("give the name of a service, as in `granary disable mariadb`, or --all")
		}
		return o.disable(ctx, env, args)
	}
}

// disable reverts enable for the named services, or for all enabled ones if none is named.
func (o options) disable(ctx context.Context, env cli.Env, names []string) error {
	m, err := o.machine(env)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = m.enabled(); err != nil {
			return err
		}
	} else if m.manager == nil {
		return fmt.Errorf("systemd does not run here: take LD_PRELOAD out where it was set, and restart %s", names[0])
	}
	if m.manager == nil {
		m.manager = image{m.root} // drop-ins in a root without systemd
		m.live = false
	}
	var errs []error
	for _, name := range names {
		u, err := m.manager.find(ctx, serviceOf(name).unitNames())
		if errors.Is(err, errNoUnit) { // the package was removed, the drop-in may remain
			u, err = m.orphan(name, err)
		}
		if err == nil {
			err = m.disable(ctx, u, o.restart)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func setupStatus(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.BoolVar(&o.asJSON, "json", false, "print JSON; sizes are bytes")
	o.place(fs)
	return func(ctx context.Context, env cli.Env, args []string) error { return o.status(ctx, env, args) }
}

// machine is the target of the options; without a manager it runs no services.
func (o options) machine(env cli.Env) (machine, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return machine{}, fmt.Errorf("find the folder of --root: %w", err)
	}
	m := machine{root: root, etc: etcUnits, live: root == "/", proc: procfs.Live(), settle: o.settle, patience: o.settle + o.timeout}
	m.say = func(format string, args ...any) { term.Line(env.Stdout, format, args...) }
	switch {
	case !m.live && o.restart:
		return m, cli.Usagef("--restart and --root do not go together: nothing runs in an image")
	case !m.live:
		m.manager = image{root}
	case booted(root):
		m.manager = systemd{}
	}
	return m, nil
}

func (o options) enable(ctx context.Context, env cli.Env, name string) error {
	m, err := o.machine(env)
	if err != nil {
		return err
	}
	library, err := o.library(env, m)
	if err != nil {
		return err
	}
	if o.hardened {
		o.set = append(o.set, "hardened=true")
	}
	conf, err := conf(m.file(library), o.set)
	if err != nil {
		return err
	}
	if ending := filepath.Ext(name); slices.Contains(otherUnits, ending) {
		return cli.Usagef("%s is no service but a %s: name the unit that it starts", name, ending[1:])
	}
	service := serviceOf(name)
	if m.manager == nil {
		tellRecipes(env.Stdout, m.root, service, dropIn{preload: []string{library}, options: conf})
		return fmt.Errorf("systemd does not run here, so nothing was changed: make the settings above by hand")
	}
	u, err := m.manager.find(ctx, service.unitNames())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := makePlan(attempt{root: m.root, etc: m.etc, live: m.live, proc: m.proc, unit: u, library: library}, name, env.Version, conf)
	if err != nil {
		return err
	}
	if o.dryRun {
		m.show(p, o.restart)
		return nil
	}
	return m.enable(ctx, p, o.restart)
}

// otherUnits are the kinds of units that run no program.
var otherUnits = []string{".socket", ".target", ".timer", ".mount", ".slice", ".scope", ".path", ".device", ".automount", ".swap"}

// library returns the library's path in the services' file system.
func (o options) library(env cli.Env, m machine) (string, error) {
	if m.live {
		return preload.Library(o.lib, env.Getenv("GRANARY_LIB"), env.Exe)
	}
	if o.lib != "" {
		if !isFile(m.file(o.lib)) {
			return "", fmt.Errorf("--lib names %s, which is not a file below %s; correct the path", o.lib, m.root)
		}
		return filepath.Join("/", o.lib), nil
	}
	return preload.Installed(m.root)
}

// conf is GRANARY_CONF made of --option; unknown options are refused.
func conf(library string, set []string) (string, error) {
	var known []inspect.Option
	if l, err := inspect.OpenLibrary(library); err == nil {
		known = l.Options
	}
	var rows []string
	for _, s := range set {
		if strings.ContainsAny(s, ", \n") {
			return "", cli.Usagef("--option %q is not of the form name=value", s)
		}
		row, err := normal(known, s)
		if err != nil {
			return "", cli.Usagef("--option: %w", err)
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, ","), nil
}

// normal is a setting as the library takes it; unchecked where the library's table cannot be read.
func normal(known []inspect.Option, setting string) (string, error) {
	if known != nil {
		return option.Normal(known, setting)
	}
	i := strings.IndexAny(setting, ":=")
	if i <= 0 || i == len(setting)-1 {
		return "", fmt.Errorf("%q is not of the form name=value", setting)
	}
	return setting[:i] + ":" + setting[i+1:], nil
}

func (o options) status(ctx context.Context, env cli.Env, args []string) error {
	m, err := o.machine(env)
	if err != nil {
		return err
	}
	if m.manager == nil {
		return errors.New("systemd does not run here: `granary ps --allocator granary` lists the processes that run Granary")
	}
	ids, err := m.enabled()
	if len(args) > 0 {
		ids, err = m.named(ctx, args)
	}
	if err != nil {
		return err
	}
	list := []Health{}
	fine := true
	for _, id := range ids {
		h := m.status(ctx, id)
		fine = fine && h.Healthy
		list = append(list, h)
	}
	switch {
	case o.asJSON:
		err = term.JSON(env.Stdout, map[string]any{"services": list})
	case len(list) == 0:
		m.say("no service is enabled: `granary enable SERVICE` does that")
	default:
		width, _ := term.Width(env.Stdout)
		table(env.Stdout, list, width)
	}
	if err == nil && !fine {
		err = &cli.ExitError{Code: cli.CodeFailed}
	}
	return err
}

// named are the units of services.
func (m machine) named(ctx context.Context, names []string) ([]string, error) {
	var ids []string
	for _, name := range names {
		u, err := m.manager.find(ctx, serviceOf(name).unitNames())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		ids = append(ids, u.id)
	}
	return ids, nil
}

// orphan is a unit of that name without files but with a drop-in.
func (m machine) orphan(name string, cause error) (unit, error) {
	for _, id := range serviceOf(name).unitNames() {
		if _, enabled, err := m.current(id); enabled && err == nil {
			return unit{id: id, properties: map[string]string{}}, nil
		}
	}
	return unit{}, fmt.Errorf("%s: %w", name, cause)
}
