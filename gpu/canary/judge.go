package canary

import (
	"bytes"
	"fmt"
)

// rule is one thing that a read must hold to. Each catches a fault that no
// other one does; judge_test.go shows it by leaving each out.
type rule uint

const (
	ruleLength    rule = 1 << iota // as many bytes as asked for
	ruleContent                    // the right bytes, in a copy back
	ruleOwner                      // the right bytes, to the GPU that owns the memory
	ruleGuards                     // nothing before or behind the slot
	ruleRest                       // nothing in the slot beside the destination
	ruleNeighbour                  // nothing in another registered buffer
	ruleRoute                      // the direct route, by the library's counters
	ruleCounted                    // there are such counters

	allRules = ruleCounted<<1 - 1
)

// judge holds what was seen to the rules; nil is a read that kept all of them.
func judge(e *evidence, rules rule) *finding {
	if canaryLaw6 {
		rules &= ruleLength
	}
	for _, r := range []struct {
		rule  rule
		check func(*evidence) *finding
	}{
		{ruleLength, checkLength},
		{ruleContent, checkContent},
		{ruleOwner, checkOwner},
		{ruleGuards, checkGuards},
		{ruleRest, checkRest},
		{ruleNeighbour, checkNeighbour},
		{ruleCounted, checkCounted},
		{ruleRoute, checkRoute},
	} {
		if rules&r.rule == 0 {
			continue
		}
		if f := r.check(e); f != nil {
			f.reason = fmt.Sprintf("read of %d bytes at %d to %d: %s", e.Length, e.FileOffset, e.SlotOffset, f.reason)
			return f
		}
	}
	return nil
}

func checkLength(e *evidence) *finding {
	if e.returned == e.Length {
		return nil
	}
	return found(nameShortRead, "it reported %d bytes", e.returned)
}

func checkContent(e *evidence) *finding {
	if bytes.Equal(e.got(), e.want()) {
		return nil
	}
	return diagnose(e)
}

// checkOwner needs a status for each piece: a kernel that says nothing of one
// does not say that it matched.
func checkOwner(e *evidence) *finding {
	if e.owner == nil {
		return nil
	}
	want := int((e.Length + pieceBytes - 1) / pieceBytes)
	if len(e.owner) != want {
		return found(nameKernel, "the verify kernel answered for %d of %d pieces", len(e.owner), want)
	}
	for i, s := range e.owner {
		switch s {
		case ownerMatch:
		case ownerMismatch:
			return found(nameOwner, "a copy back has the right bytes, and the GPU itself sees others at %d: its memory is not where the reads go", i*pieceBytes)
		default:
			return found(nameKernel, "the verify kernel gave no answer for the bytes at %d (status %d), after it was proven", i*pieceBytes, s)
		}
	}
	return nil
}

func checkGuards(e *evidence) *finding {
	front, back := e.slot[:pieceBytes], e.slot[len(e.slot)-pieceBytes:]
	if at := firstOther(front, e.guard); at >= 0 {
		return found(nameGuard, "a byte %d before the slot was written", pieceBytes-at)
	}
	if at := firstOther(back, e.guard); at >= 0 {
		return found(nameGuard, "a byte %d behind the slot was written", at)
	}
	return nil
}

func checkRest(e *evidence) *finding {
	if at := firstOther(e.slot[pieceBytes:e.inSlot()], e.poison); at >= 0 {
		return found(nameSlot, "the byte %d before the destination was written", e.SlotOffset-int64(at))
	}
	end := e.inSlot() + e.Length
	if at := firstOther(e.slot[end:len(e.slot)-pieceBytes], e.poison); at >= 0 {
		return found(nameSlot, "the byte %d behind the destination was written", at)
	}
	return nil
}

func checkNeighbour(e *evidence) *finding {
	if at := firstOther(e.neighbour, e.guard); at >= 0 {
		return found(nameNeighbour, "byte %d of another registered buffer was written", at)
	}
	return nil
}

func checkCounted(e *evidence) *finding {
	if e.routesBefore != nil && e.routesAfter != nil {
		return nil
	}
	return found(nameNoCounters, "no counter shows which way the bytes took (libcufile has them since CUDA 13.0), so a read through host memory would look the same")
}

// checkRoute compares the counters. A counter that fell is no counter.
func checkRoute(e *evidence) *finding {
	if e.routesBefore == nil || e.routesAfter == nil {
		return nil
	}
	b, a := e.routesBefore, e.routesAfter
	if a.POSIX != b.POSIX {
		return found(nameHostRoute, "it went through host memory: libcufile counted %d reads by POSIX calls, %d before (peer to peer %d, nvidia-fs %d)", a.POSIX, b.POSIX, a.P2P, a.NVFS)
	}
	if a.P2P < b.P2P || a.NVFS < b.NVFS || a.P2P == b.P2P && a.NVFS == b.NVFS {
		return found(nameNoRoute, "libcufile counted no read by a direct route (peer to peer %d, %d before; nvidia-fs %d, %d before)", a.P2P, b.P2P, a.NVFS, b.NVFS)
	}
	return nil
}
