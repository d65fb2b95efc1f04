// Package faults is the log in which a run of the fault matrix keeps what was
// tried and what came of it. Package faulttest, below it, writes it for tests.
package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// LogVariable is the environment variable that names the log of faults.
const LogVariable = "SEALSTONE_FAULT_LOG"

// Record is what one test, or a script of the canaries, did: one line of the
// log of faults.
type Record struct {
	Test string `json:"test"`
	// Faults were injected; Survived of them happened and did no harm.
	Faults   int64 `json:"faults"`
	Survived int64 `json:"survived"`
	// WrongBytes were served: any is a defect.
	WrongBytes int64 `json:"wrong_bytes"`
	// Canaries are laws broken on purpose, CanariesCaught those of them that
	// a test noticed.
	Canaries       int64 `json:"canaries"`
	CanariesCaught int64 `json:"canaries_caught"`
	// Seeds are random histories, Kills processes that were killed.
	Seeds  int64 `json:"seeds"`
	Kills  int64 `json:"kills"`
	Failed bool  `json:"failed"`
}

// Append adds the record to the log of faults, if there is one. Lines are
// written by one call each, so that tests of several processes do not mix.
func (r Record) Append() error {
	name := os.Getenv(LogVariable)
	if name == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// ReadLog reads the records of a log of faults.
func ReadLog(r io.Reader) ([]Record, error) {
	var out []Record
	for dec := json.NewDecoder(r); ; {
		var rec Record
		switch err := dec.Decode(&rec); err {
		case nil:
			out = append(out, rec)
		case io.EOF:
			return out, nil
		default:
			return nil, fmt.Errorf("record %d of the log of faults: %w", len(out)+1, err)
		}
	}
}

// Sum is the total of a run.
func Sum(records []Record) Record {
	var sum Record
	for _, r := range records {
		sum.Faults += r.Faults
		sum.Survived += r.Survived
		sum.WrongBytes += r.WrongBytes
		sum.Canaries += r.Canaries
		sum.CanariesCaught += r.CanariesCaught
		sum.Seeds += r.Seeds
		sum.Kills += r.Kills
		sum.Failed = sum.Failed || r.Failed
	}
	return sum
}
