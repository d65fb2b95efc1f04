package replay

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

func killConfig(t *testing.T, fault string) Config {
	t.Setenv("REPLAY_TEST_CHILD", fault)
	c := config(t, 40, fault)
	c.KillAfter, c.DropEvery = 20, 7
	c.Child = []string{os.Args[0]}
	return c
}

func TestKillHonest(t *testing.T) {
	for _, workers := range []int{1, 4} {
		c := killConfig(t, "")
		c.Concurrency = workers
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.KillReport == nil || len(r.Broken()) > 0 || len(r.Problems) > 0 {
			t.Fatalf("broken %v, problems %v", r.Broken(), r.Problems)
		}
		if r.KilledAfter < 20 || r.Requests != 40 {
			t.Errorf("killed after %d, %d requests in all", r.KilledAfter, r.Requests)
		}
		if r.Acknowledged == 0 || r.ReopenFound != r.Acknowledged || r.Dropped == 0 {
			t.Errorf("acknowledged %d, found %d, dropped %d", r.Acknowledged, r.ReopenFound, r.Dropped)
		}
		if workers == 1 && r.HitRate != r.HitRateInfinite {
			t.Errorf("hit rate %v of a store without limits, %v of an infinite cache", r.HitRate, r.HitRateInfinite)
		}
		if r.WrittenBytes < 1011*r.Acknowledged {
			t.Errorf("what the child wrote is not in the %d bytes written", r.WrittenBytes)
		}
	}
}

func TestKillSeesBrokenPromises(t *testing.T) {
	for _, c := range []struct{ fault, broken, problem string }{
		{faultForget, "acknowledged blocks are missing", "was acknowledged: fake: miss"},
		{faultUndead, "dropped blocks came back", ""},
		{faultWrongByte, "blocks are wrong after the kill", "OK with 1 wrong bytes"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r, err := Run(t.Context(), killConfig(t, c.fault))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(fmt.Sprint(r.Broken()), c.broken) || !strings.Contains(fmt.Sprint(r.Problems), c.problem) {
				t.Errorf("broken %v, problems %q; want %q and %q", r.Broken(), r.Problems, c.broken, c.problem)
			}
		})
	}
}

func TestKillChildThatFails(t *testing.T) {
	c := killConfig(t, faultOpen)
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "fake: does not open") {
		t.Errorf("got %v, want the child's error", err)
	}
}

// TestLedger takes the account through every order of messages that matters.
func TestLedger(t *testing.T) {
	tr := &trace.Trace{Requests: []trace.Request{{IDs: []uint64{7}}}}
	ref := blockgen.Ref{ID: 7}
	put, acked := message{Kind: msgPut, Blocks: []int{0}}, message{Kind: msgAcked, Blocks: []int{0}, Acked: []int{0}}
	refused := message{Kind: msgAcked, Blocks: []int{0}}
	dropping, dropped := message{Kind: msgDropping, Blocks: []int{0}}, message{Kind: msgDropped, Blocks: []int{0}}
	for _, c := range []struct {
		name           string
		messages       []message
		found, missing KillReport
	}{
		{"put", []message{put}, KillReport{UnacknowledgedFound: 1}, KillReport{}},
		{"acknowledged", []message{put, acked}, KillReport{Acknowledged: 1, ReopenFound: 1}, KillReport{Acknowledged: 1, ReopenMissing: 1}},
		{"refused", []message{put, refused}, KillReport{UnacknowledgedFound: 1}, KillReport{}},
		{"put again", []message{put, acked, put}, KillReport{Acknowledged: 1, ReopenFound: 1}, KillReport{Acknowledged: 1, ReopenMissing: 1}},
		{"put again, refused", []message{put, acked, put, refused}, KillReport{Acknowledged: 1, ReopenFound: 1}, KillReport{Acknowledged: 1, ReopenMissing: 1}},
		{"in a drop", []message{put, acked, dropping}, KillReport{UnacknowledgedFound: 1}, KillReport{}},
		{"dropped", []message{put, acked, dropping, dropped}, KillReport{Dropped: 1, Resurrected: 1}, KillReport{Dropped: 1}},
		{"dropped, in a put", []message{put, acked, dropping, dropped, put}, KillReport{UnacknowledgedFound: 1}, KillReport{}},
		{"dropped and put", []message{put, acked, dropping, dropped, put, acked}, KillReport{Acknowledged: 1, ReopenFound: 1}, KillReport{Acknowledged: 1, ReopenMissing: 1}},
		{"nonsense", []message{{Kind: msgAcked, Request: 9, Blocks: []int{0}}, put, {Kind: msgAcked, Blocks: []int{5}, Acked: []int{5}}}, KillReport{UnacknowledgedFound: 1}, KillReport{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(tr)
			for _, m := range c.messages {
				l.apply(m)
			}
			for found, want := range map[bool]KillReport{true: c.found, false: c.missing} {
				var got KillReport
				l.totals(&got)
				l.judge(&got, ref, found, found)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("found=%v: %s", found, d)
				}
			}
			var wrong KillReport
			l.judge(&wrong, ref, true, false)
			if !cmp.Equal(wrong, KillReport{ReopenWrong: 1}) {
				t.Errorf("wrong bytes counted as %+v", wrong)
			}
		})
	}
}
