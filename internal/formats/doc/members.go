package doc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Members reads the next JSON object from dec with its members in their order, which a map would lose: the columns of a
// row that a query printed as JSON. Numbers are json.Number; lists and objects stay text, a json.RawMessage, since a
// stranger's may become many times as large. At the end of the input the error is io.EOF.
func Members(dec *json.Decoder) (names []string, values []any, err error) {
	dec.UseNumber()
	token, err := dec.Token()
	if err != nil {
		return nil, nil, err
	}
	if token != json.Delim('{') {
		return nil, nil, fmt.Errorf("%v stands where a row begins", token)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, inside(err)
		}
		var text json.RawMessage
		if err := dec.Decode(&text); err != nil {
			return nil, nil, inside(err)
		}
		value, err := scalar(text)
		if err != nil {
			return nil, nil, err
		}
		name, _ := token.(string) // the decoder takes nothing else there
		names, values = append(names, name), append(values, value)
	}
	_, err = dec.Token() // }
	return names, values, inside(err)
}

// inside is an error in the middle of an object, where the input has no end.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// scalar is a value that is neither list nor object; those are the text itself.
func scalar(text json.RawMessage) (value any, err error) {
	if text[0] == '[' || text[0] == '{' {
		return text, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}
