package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// What a shell offers at a Tab. The scripts that memgauge completion prints start `memgauge __complete WORD…` with the
// words of the line, of which the last is not finished.

// isCompletion says whether a word is such a request.
func isCompletion(word string) bool {
	return word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

// mostOffered bounds the sessions that are offered: more than a terminal's lines help nobody.
const mostOffered = 40

// completing takes the ENDPOINT that stands before the command off a request. Behind it only commands are offered that
// ask a session.
func (a *App) completing(root *cobra.Command, args []string) []string {
	request, typed := args[:1], args[1:]
	if len(typed) == 0 {
		return args
	}
	n := wordsBefore(root, typed[:len(typed)-1])
	if n > 0 {
		a.Say(typed[:n]...)
	}
	a.hideHubFlags(root, typed)
	if n == 0 {
		return args
	}
	root.ValidArgsFunction = nil
	for _, c := range root.Commands() {
		c.Hidden = c.Hidden || !asksMany(c)
	}
	return slices.Concat(request, typed[n:])
}

// hideHubFlags keeps the flags of the way to many machines from those whose line names none.
func (a *App) hideHubFlags(root *cobra.Command, typed []string) {
	if a.Endpoint.Many || len(typed) > 0 && typed[0] == "hub" {
		return
	}
	for _, name := range hubFlags {
		root.PersistentFlags().Lookup(name).Hidden = true
	}
}

// completeRoot has shells offer the sessions there are: before the command, behind -t, and in place of an argument that
// is one. Behind `hub` they offer what can be asked of many machines.
func (a *App) completeRoot(root *cobra.Command) {
	sessions := func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offerSessions(word)
	}
	root.ValidArgsFunction = sessions
	_ = root.RegisterFlagCompletionFunc("target", sessions) // the flag is there
	for _, c := range root.Commands() {
		if c.Name() == "hub" {
			c.ValidArgsFunction = func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion,
				cobra.ShellCompDirective) {
				return offerCommands(root, word), cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
}

func offerCommands(root *cobra.Command, word string) (list []cobra.Completion) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && asksMany(c) && c.Name() != "completion" && strings.HasPrefix(c.Name(), word) {
			list = append(list, cobra.CompletionWithDesc(c.Name(), c.Short))
		}
	}
	return list
}

// offerSessions offers the names of sessions and, once a digit is typed, the PIDs of live ones.
func offerSessions(word string) (list []cobra.Completion, how cobra.ShellCompDirective) {
	now := time.Now()
	offered := map[string]bool{}
	offer := func(text, about string) {
		if strings.HasPrefix(text, word) && len(list) < mostOffered && !offered[text] {
			offered[text] = true
			list = append(list, cobra.CompletionWithDesc(text, plain.Line(about)))
		}
	}
	for _, s := range ask.Known() {
		name, about := s.Name, strings.Join(s.Command, " ")
		if name == "" {
			name = s.ID
		}
		if !s.Live {
			offer(name, fmt.Sprintf("finished, began %s: %s", units.Age(s.Started, now), about))
			continue
		}
		offer(name, fmt.Sprintf("live, began %s: %s", units.Age(s.Started, now), about))
		for i, pid := range s.PIDs {
			if word != "" || i == 0 {
				offer(strconv.Itoa(pid), "of "+name)
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// offerPIDs offers the processes that are observed.
func offerPIDs(word string) (list []cobra.Completion) {
	for _, s := range ask.Known() {
		for _, pid := range s.PIDs {
			if text := strconv.Itoa(pid); s.Live && strings.HasPrefix(text, word) && len(list) < mostOffered {
				list = append(list, cobra.CompletionWithDesc(text, plain.Line(strings.Join(s.Command, " "))))
			}
		}
	}
	return list
}

func offerTables(word string) (list []cobra.Completion) {
	for _, name := range table.Views() {
		if strings.HasPrefix(name, word) {
			list = append(list, cobra.CompletionWithDesc(name, table.Find(name).DocOf(false)))
		}
	}
	return list
}

// Offer has shells complete some words as a flag's value.
func Offer(c *cobra.Command, flag string, words ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// files are the words for arguments and values that are files, as usage lines have them; a directory's is DIR.
const files = "FILE FILE.html PATH OUTPUT OUTPUT.html A B FROM TO SNAPSHOT TRACE WHERE POLICY SCRIPT CMD PYTHON"

// complete has shells offer what a command's usage line says that its arguments are, and files only where those are
// meant.
func complete(c *cobra.Command) {
	if words := arguments(c.Use); c.ValidArgsFunction == nil && !leads(c) {
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, word string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			return offerArgument(words, len(args), word)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		if _, has := c.GetFlagCompletionFunc(f.Name); has || slices.Contains(strings.Fields(files), what) {
			return
		}
		if what == "DIR" {
			_ = c.MarkFlagDirname(f.Name)
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
	})
}

// arguments are the words of a usage line for what stands behind the command: PID, [FILE], TABLE….
func arguments(use string) (list []string) {
	for _, word := range strings.Fields(use)[1:] {
		if word = strings.Trim(word, "[]"); word != "--" && word != "flags" {
			list = append(list, word)
		}
	}
	return list
}

func offerArgument(words []string, i int, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(words) > 0 && (strings.HasSuffix(words[len(words)-1], "…")) {
		i = min(i, len(words)-1)
	}
	if i >= len(words) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	switch what := strings.TrimSuffix(words[i], "…"); {
	case what == "PID":
		return offerPIDs(word), cobra.ShellCompDirectiveNoFileComp
	case what == "TABLE":
		return offerTables(word), cobra.ShellCompDirectiveNoFileComp
	case what == "SESSION":
		return offerSessions(word)
	case slices.Contains(strings.Fields(files), what):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
