package doc

import "encoding/json"

// Members reads the next JSON object from dec with its members in their order, which a map would lose: the columns of a
// row that a query printed as JSON. Numbers are json.Number. At the end of the input the error is io.EOF.
func Members(dec *json.Decoder) (names []string, values []any, err error) {
	dec.UseNumber()
	if _, err := dec.Token(); err != nil { // {
		return nil, nil, err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, nil, err
		}
		name, _ := token.(string) // the decoder takes nothing else there
		names, values = append(names, name), append(values, value)
	}
	_, err = dec.Token() // }
	return names, values, err
}
