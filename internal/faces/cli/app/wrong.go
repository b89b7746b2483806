package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
)

// wrongFlag words pflag's error about a flag: without the names of Go's functions, and with the way to those that there
// are.
func wrongFlag(c *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		return remedy.Add(err, meantFlag(c, missing.GetSpecifiedName())+c.CommandPath()+" --help lists its flags")
	}
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &value) {
		return err
	}
	var bad badValue
	if errors.As(err, &bad) {
		return fmt.Errorf("--%s %q: %w", value.GetFlag().Name, value.GetValue(), bad.error)
	}
	if !errors.As(err, &number) {
		var wanted *units.Wanted
		if errors.As(err, &wanted) {
			return fmt.Errorf("--%s %q: want %s", value.GetFlag().Name, value.GetValue(), wanted.Want)
		}
		if value.GetFlag().Value.Type() == "duration" {
			return fmt.Errorf("--%s %q: not a duration such as 2s or 5m", value.GetFlag().Name, value.GetValue())
		}
		return err
	}
	why := "not a number"
	switch kind := value.GetFlag().Value.Type(); {
	case errors.Is(number, strconv.ErrRange):
		why = "out of range"
	case kind == "bool":
		why = "not true or false"
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint"):
		why = "not a whole number"
	}
	return fmt.Errorf("--%s %q: %s", value.GetFlag().Name, value.GetValue(), why)
}

// groups are cobra's words for flags that exclude each other or go together.
var groups = pattern.Of(`^if any flags in the group \[(.*)\] are set ` +
	`(?:none of the others can be; \[(.*)\] were all set|they must all be set; missing \[(.*)\])$`)

// wordGroups says the same as other errors do.
func wordGroups(err error) error {
	found := groups().FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return err
	case found[2] != "":
		return Usage(errors.New(flags(found[2]) + " exclude each other"))
	}
	return Usage(fmt.Errorf("%s go together: %s is missing", flags(found[1]), flags(found[3])))
}

func flags(names string) string { return "--" + strings.ReplaceAll(names, " ", " and --") }

// leading is the annotation of commands that only lead to others.
const leading = "leads to others"

// leadOn makes c show its help, and refuse what is no command below it: cobra takes such a word for a wish for help.
func leadOn(c *cobra.Command) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[leading] = ""
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return remedy.Add(fmt.Errorf("no command %q", args[0]), meant(c, args[0])+listsCommands(c))
	}
}

// meant asks whether a command of c with a similar name was meant; "" where there is none.
func meant(c *cobra.Command, typed string) string {
	return didYouMean(c, typed, "")
}

// meantFlag does so for a flag of c, by cobra's own measure of likeness, which it has for commands alone.
func meantFlag(c *cobra.Command, typed string) string {
	names := &cobra.Command{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return didYouMean(names, typed, "--")
}

func didYouMean(c *cobra.Command, typed, before string) string {
	c.SuggestionsMinimumDistance = 2
	if len(typed) < 5 { // most short names are two letters apart
		c.SuggestionsMinimumDistance = 1
	}
	names := c.SuggestionsFor(typed)
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + before + strings.Join(names[:min(len(names), 3)], " or "+before) + "? "
}

func leads(c *cobra.Command) bool {
	_, only := c.Annotations[leading]
	return only
}

func listsCommands(c *cobra.Command) string { return c.CommandPath() + " --help lists its commands" }
