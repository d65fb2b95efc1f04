package disk

import "fmt"

// probeNoise is how much faster a path must read before speed alone decides:
// a measurement as short as a probe's is no better than that.
const probeNoise = 0.10

// Choose sets Chosen to the proven path that reads fastest. The page cache is
// not in the race while a path around it is proven: it takes memory that no
// limit of the store bounds, and a moment's measurement flatters it. Of those
// that are within a tenth of it the one that takes the least CPU is taken.
// Where CPU is within a tenth too, or nothing was measured, it is the first in
// the order of PathNames.
func (r *ProbeReport) Choose() {
	r.Chosen, r.ChosenBecause = "", "no path is proven"
	var proven []ProbePath
	for _, p := range r.Paths {
		if p.State == PathProven {
			proven = append(proven, p)
		}
	}
	if len(proven) == 0 {
		return
	}
	if last := len(proven) - 1; last > 0 && proven[last].Name == PathBuffered {
		proven = proven[:last]
	}
	r.Chosen = proven[0].Name
	if len(proven) == 1 {
		r.ChosenBecause = "the only proven path"
		if r.Chosen != PathBuffered {
			r.ChosenBecause = "the only proven path past the page cache"
		}
		return
	}
	best, near := nearFastest(proven)
	if best.ReadMiBs == 0 {
		r.ChosenBecause = "the first proven path; nothing was measured"
		return
	}
	pick := near[0]
	for _, p := range near {
		if p.CPUSecondsPerGiB < pick.CPUSecondsPerGiB*(1-probeNoise) {
			pick = p
		}
	}
	r.Chosen = pick.Name
	if len(near) == 1 {
		r.ChosenBecause = fmt.Sprintf("it reads fastest, %.0f MiB/s", pick.ReadMiBs)
		return
	}
	r.ChosenBecause = fmt.Sprintf("it reads %.0f MiB/s, within %.0f %% of the fastest, and takes little CPU, %.2f s per GiB",
		pick.ReadMiBs, probeNoise*100, pick.CPUSecondsPerGiB)
}

// nearFastest is the fastest path and those within the noise of it. Paths
// that were not measured do not count.
func nearFastest(paths []ProbePath) (best ProbePath, near []ProbePath) {
	for _, p := range paths {
		if p.ReadMiBs > best.ReadMiBs {
			best = p
		}
	}
	for _, p := range paths {
		if p.ReadMiBs > 0 && p.ReadMiBs >= best.ReadMiBs*(1-probeNoise) {
			near = append(near, p)
		}
	}
	return best, near
}
