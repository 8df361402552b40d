package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
)

// Action runs a command after its flags are parsed; args are the arguments that are not flags.
type Action func(ctx context.Context, env Env, args []string) error

// Argument is the kind of a command's arguments, for shell completion.
type Argument int

// The kinds of arguments. PIDs are completed from the processes that run, Words from a list,
// Programs and Files by the shell.
const (
	None Argument = iota
	PIDs
	Words
	Programs
	Files
)

// Example is a command line and its effect.
type Example struct{ Line, Does string }

// Exit is an exit code and its meaning.
type Exit struct {
	Code    int
	Meaning string
}

// Command is one row of the table. Name may be two words. Setup declares the flags of the command and
// returns its work.
type Command struct {
	Name      string
	Group     string // heading it is listed under
	Usage     string // what follows the name
	Summary   string
	About     string // paragraphs, after the summary
	Examples  []Example
	Exits     []Exit // instead of the usual ones
	WrongCode int    // exit code of a wrong option, if it is not CodeUsage
	Takes     Argument
	Choices   func() []string // for Words, and for what follows the first of PIDs
	Setup     func(fs *pflag.FlagSet) Action
}

// Exits are the exit codes of a command that ends as usual, with its own meanings of success and failure.
func Exits(fine, failed string) []Exit {
	return []Exit{{0, fine}, {CodeFailed, failed}, {CodeUsage, "the command line is wrong"}}
}

// usualExits hold for every command that says nothing else.
var usualExits = Exits("fine", "it found a problem, or failed; a message on stderr says which")

// ExitCodes are the codes the command may end with.
func (c Command) ExitCodes() []Exit {
	if c.Exits != nil {
		return c.Exits
	}
	return usualExits
}

// words checks the number of arguments and names what is missing.
func words(args []string, least, most int, what string) error {
	switch {
	case len(args) < least:
		return Usagef("give %s", what)
	case most >= 0 && len(args) > most:
		return Usagef("%q is one argument too many: give only %s", args[most], what)
	}
	return nil
}

// Arguments makes act refuse fewer than least or more than most arguments (-1: any number). What
// says in words what they are, as in "the PID of a process".
func Arguments(least, most int, what string, act Action) Action {
	return func(ctx context.Context, env Env, args []string) error {
		if err := words(args, least, most, what); err != nil {
			return err
		}
		return act(ctx, env, args)
	}
}

// PID reads a process id.
func PID(text string) (int, error) {
	var pid int
	if n, err := fmt.Sscanf(text+" ", "%d ", &pid); n != 1 || err != nil || pid <= 0 || fmt.Sprint(pid) != text {
		return 0, Usagef("%q is not a process id: give the number that `granary ps` shows", text)
	}
	return pid, nil
}
