package canary

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// parseUUID reads a UUID as NVML prints it, of a GPU or of a MIG instance.
func parseUUID(s string) ([16]byte, error) {
	var u [16]byte
	text := strings.TrimPrefix(strings.TrimPrefix(s, "GPU-"), "MIG-")
	parts := strings.Split(text, "-")
	b, err := hex.DecodeString(strings.Join(parts, ""))
	if err != nil || len(b) != len(u) || len(parts) != 5 {
		return u, fmt.Errorf("GPU %q: want a UUID such as GPU-00112233-4455-6677-8899-aabbccddeeff", shorten(s))
	}
	return [16]byte(b), nil
}

// versionText is a version of cuFile in the form that people know.
func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// uuidText is a UUID as NVML prints it.
func uuidText(u [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
