package ask

import "context"

// teller is the key of a context's function that tells the user something.
type teller struct{}

// Telling returns a context in which waits of some length are told to the user, in a line each.
func Telling(ctx context.Context, say func(line string)) context.Context {
	return context.WithValue(ctx, teller{}, say)
}

func tell(ctx context.Context, line string) {
	if say, ok := ctx.Value(teller{}).(func(string)); ok {
		say(line)
	}
}
