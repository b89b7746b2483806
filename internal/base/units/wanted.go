package units

// Wanted is the error of a text that is none of a kind, such as a size.
type Wanted struct {
	Kind, Text string // the text is quoted, and short
	Want       string // what one looks like
}

func (w *Wanted) Error() string { return w.Kind + " " + w.Text + ": want " + w.Want }
