package app

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checked is a flag's value that refuses some texts where the command line is read: the error names the flag, and
// nothing has been opened or begun.
type checked struct {
	pflag.Value
	check func(text string) error
}

func (v checked) Set(text string) error {
	if err := v.check(text); err != nil {
		return badValue{err}
	}
	return v.Value.Set(text)
}

// badValue is what a check says of a value.
type badValue struct{ error }

// Check has a flag refuse texts.
func Check(flags *pflag.FlagSet, flag string, check func(text string) error) {
	f := flags.Lookup(flag)
	f.Value = checked{f.Value, check}
}

// OneOf is a check for words, of which several may stand in a list.
func OneOf(words ...string) func(string) error {
	return func(text string) error {
		for word := range strings.SplitSeq(text, ",") {
			if !slices.Contains(words, word) {
				return errors.New("not one of " + strings.Join(words, ", "))
			}
		}
		return nil
	}
}

// Words has a flag refuse all but some words, of which several may stand in a list, and shells complete them.
func Words(c *cobra.Command, flag string, words ...string) {
	Check(c.Flags(), flag, OneOf(words...))
	Offer(c, flag, words...)
}

// Listens is a check for addresses to listen at.
func Listens(text string) error {
	if _, _, err := net.SplitHostPort(text); err != nil {
		return errors.New("not an address such as 127.0.0.1:8080")
	}
	return nil
}

// checkAll adds the checks that go by what a flag is: none counts below zero unless its default does, and devices are
// numbers, or the host.
func checkAll(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "float64":
			if !strings.HasPrefix(f.DefValue, "-") {
				Check(c.Flags(), f.Name, natural)
			}
		case "stringSlice":
			if f.Name == "devices" {
				Check(c.Flags(), f.Name, devices)
			}
		}
	})
}

func natural(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.HasPrefix(text, "-") {
		return errors.New("want 0 or more")
	}
	return nil
}

func devices(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if _, err := strconv.ParseUint(name, 10, 16); err != nil && name != "host" && name != "" {
			return fmt.Errorf("%q is not a device: host, 0, 1 …", name)
		}
	}
	return nil
}
