package wire

import (
	"strings"

	"github.com/sealstone/sealstone/engine"
)

var statuses = func() map[string]engine.Status {
	m := map[string]engine.Status{}
	for _, s := range engine.Statuses() {
		m[StatusWord(s)] = s
	}
	return m
}()

// StatusWord is a status as answers have it: "ok", "miss", "ioerror".
func StatusWord(s engine.Status) string { return strings.ToLower(s.String()) }

// ParseStatus reads a status word, in whatever case.
func ParseStatus(word []byte) (engine.Status, bool) {
	s, ok := statuses[strings.ToLower(string(word))]
	return s, ok
}
