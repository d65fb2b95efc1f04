package demo

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

const (
	workloadBlockBytes = 32 << 10
	workloadCapacity   = 512 << 20
	workloadKillAfter  = 120
)

// workload replays the bundled trace with a kill, and reads the promises off
// the report.
func workload(ctx context.Context, c Config, dir string) ([]Promise, error) {
	path := dir + ".jsonl"
	if err := os.WriteFile(path, excerptLines, 0o600); err != nil {
		return nil, err
	}
	r, err := replay.Run(ctx, replay.Config{
		TracePath: path, Dir: dir, BlockBytes: workloadBlockBytes, CapacityBytes: workloadCapacity,
		KillAfter: workloadKillAfter, Child: c.Child, Open: replay.OpenEngine,
	})
	if err != nil {
		return nil, err
	}
	return workloadPromises(r), nil
}

func workloadPromises(r *replay.Report) []Promise {
	k := r.KillReport
	return []Promise{
		{
			Name:    "only right bytes are served",
			How:     fmt.Sprintf("%d requests of a chat service's trace, each byte compared", r.Requests),
			Outcome: fmt.Sprintf("%s verified, %d wrong; hit rate %.1f %% of %.1f %%%s", mib(r.VerifiedBytes), r.WrongBytes, 100*r.HitRate, 100*r.HitRateInfinite, problems(r)),
			Held:    r.WrongBytes == 0 && r.VerifiedBytes > 0 && r.HitRate > 0,
		},
		{
			Name:    "what was acknowledged survives kill -9",
			How:     fmt.Sprintf("the owner killed in a put after %d requests", k.KilledAfter),
			Outcome: fmt.Sprintf("%d of %d acknowledged blocks found, all bytes right; reopened in %.0f ms", k.ReopenFound, k.Acknowledged, k.ReopenMS),
			Held:    k.Acknowledged > 0 && k.ReopenFound == k.Acknowledged && k.ReopenWrong == 0,
		},
		{
			Name:    "what was dropped stays away",
			How:     "some blocks dropped before the kill",
			Outcome: fmt.Sprintf("%d dropped, %d came back", k.Dropped, k.Resurrected),
			Held:    k.Dropped > 0 && k.Resurrected == 0,
		},
		{
			Name:    "the capacity holds",
			How:     fmt.Sprintf("%d looks at the disk from outside, unlinked files too", r.DiskSamples),
			Outcome: fmt.Sprintf("at most %s of %s", mib(r.DiskBytesMax), mib(r.CapacityBytes)),
			Held:    r.DiskSamples > 1 && r.DiskBytesMax <= r.CapacityBytes,
		},
	}
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func problems(r *replay.Report) string {
	if len(r.Problems) == 0 {
		return ""
	}
	return "; " + strings.Join(r.Problems, "; ")
}
