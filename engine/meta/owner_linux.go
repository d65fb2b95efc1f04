package meta

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

func processFacts() (pidNamespace, startTicks uint64, bootID string) {
	if s, err := os.Readlink("/proc/self/ns/pid"); err == nil { // pid:[4026531836]
		s = strings.TrimSuffix(strings.TrimPrefix(s, "pid:["), "]")
		pidNamespace, _ = strconv.ParseUint(s, 10, 64)
	}
	if p, err := os.ReadFile("/proc/self/stat"); err == nil {
		startTicks = parseStartTicks(p)
	}
	if p, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		bootID = strings.TrimSpace(string(p))
	}
	return pidNamespace, startTicks, bootID
}

// parseStartTicks reads field 22 of /proc/PID/stat. Field 2, the command's
// name in parentheses, may have spaces and parentheses of its own.
func parseStartTicks(stat []byte) uint64 {
	const startField, firstBehindName = 22, 3
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0
	}
	fields := strings.Fields(string(stat[i+1:]))
	if len(fields) <= startField-firstBehindName {
		return 0
	}
	ticks, _ := strconv.ParseUint(fields[startField-firstBehindName], 10, 64)
	return ticks
}
