package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// JSONMax bounds the JSON that a call is given.
const JSONMax = 1 << 20

// jsonDepthMax is deeper than anything that a call understands.
const jsonDepthMax = 16

// checkJSON holds what encoding/json lets pass: text that is no UTF-8, a key
// that stands twice in an object, and more after the value.
func checkJSON(p []byte) error {
	if len(p) > JSONMax {
		return fmt.Errorf("JSON of %d bytes, at most %d are read", len(p), JSONMax)
	}
	if !utf8.Valid(p) {
		return errors.New("JSON is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("JSON goes on behind its end, at byte %d", d.InputOffset())
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth == jsonDepthMax {
		return fmt.Errorf("JSON is nested deeper than %d", jsonDepthMax)
	}
	keys := map[string]bool{}
	for d.More() {
		if open == '{' {
			if err := checkKey(d, keys); err != nil {
				return err
			}
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of it
	return jsonError(err)
}

func checkKey(d *json.Decoder, keys map[string]bool) error {
	t, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	key, ok := t.(string)
	if !ok || keys[key] {
		return fmt.Errorf("JSON has the key %q twice in one object", fmt.Sprint(t))
	}
	keys[key] = true
	return nil
}

func jsonError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("JSON ends in the middle")
	}
	return fmt.Errorf("JSON: %w", err)
}

// readObject reads an object by a table of its keys, spelt exactly. A key that
// the table lacks is refused: a misspelt option is an option left out.
func readObject(p []byte, keys map[string]func(json.RawMessage) error) error {
	if err := checkJSON(p); err != nil {
		return err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(p, &raw); err != nil || raw == nil {
		return fmt.Errorf("JSON object wanted, such as {%q: ...}", "key")
	}
	for key, value := range raw {
		set := keys[key]
		if set == nil {
			return fmt.Errorf("unknown key %q", key)
		}
		if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			return fmt.Errorf("%q is null: leave it out for the default", key)
		}
		if err := set(value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

// whole reads an integer of least to most into dst.
func whole[T int | int64 | uint32](dst *T, least, most int64) func(json.RawMessage) error {
	return func(p json.RawMessage) error {
		var v int64
		if err := json.Unmarshal(p, &v); err != nil {
			return fmt.Errorf("a whole number is wanted, not %.40s", p)
		}
		if v < least || v > most {
			return fmt.Errorf("%d is outside %d..%d", v, least, most)
		}
		*dst = T(v)
		return nil
	}
}

func text(dst *string) func(json.RawMessage) error {
	return func(p json.RawMessage) error {
		if err := json.Unmarshal(p, dst); err != nil {
			return fmt.Errorf("a string is wanted, not %.40s", p)
		}
		return nil
	}
}

func truth(dst *bool) func(json.RawMessage) error {
	return func(p json.RawMessage) error {
		if err := json.Unmarshal(p, dst); err != nil {
			return fmt.Errorf("true or false is wanted, not %.40s", p)
		}
		return nil
	}
}

// oneOf reads one of some words.
func oneOf[T any](dst *T, words map[string]T) func(json.RawMessage) error {
	return func(p json.RawMessage) error {
		var s string
		if err := text(&s)(p); err != nil {
			return err
		}
		v, ok := words[s]
		if !ok {
			return fmt.Errorf("%q is none of the words that it may be (see sealstone.h)", s)
		}
		*dst = v
		return nil
	}
}
