package aligned

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

const (
	siteDepth = 8 // callers kept per buffer
	sitesMax  = 5 // places named in an error
)

// site is where a buffer was taken: program counters, zeros behind the last.
type site [siteDepth]uintptr

// record remembers who took a buffer, where that was asked for.
func (p *Pool) record(b *Buffer) {
	if !p.o.RecordSites {
		return
	}
	b.site = new(site)
	runtime.Callers(4, b.site[:]) // above Callers, record, deliver and Get
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[b] = struct{}{}
}

// forget is for a buffer that was freed.
func (p *Pool) forget(b *Buffer) {
	if !p.o.RecordSites {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, b)
}

// sites lists where buffers in use were taken, the most frequent first; empty
// where that was not recorded. p.mu is held.
func (p *Pool) sites() string {
	taken := map[site]int{}
	for b := range p.live {
		taken[*b.site]++
	}
	all := slices.SortedFunc(maps.Keys(taken), func(a, b site) int { return cmp.Compare(taken[b], taken[a]) })
	var out strings.Builder
	for i, at := range all {
		if i == sitesMax {
			fmt.Fprintf(&out, "; and %d other places", len(all)-i)
			break
		}
		fmt.Fprintf(&out, "; %d taken at %s", taken[at], at)
	}
	return out.String()
}

// String is the callers, the innermost first.
func (at site) String() string {
	n := slices.Index(at[:], 0)
	if n < 0 {
		n = siteDepth
	}
	var out []string
	for frames := runtime.CallersFrames(at[:n]); ; {
		f, more := frames.Next()
		out = append(out, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if !more {
			return strings.Join(out, " < ")
		}
	}
}
