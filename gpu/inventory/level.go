package inventory

// Level is how close two devices are, in the words of nvidia-smi's topology
// matrix.
type Level string

// Levels from near to far.
const (
	LevelUnknown  Level = "unknown"
	LevelInternal Level = "internal" // two GPUs on one board
	LevelPIX      Level = "PIX"      // below one PCIe switch
	LevelPXB      Level = "PXB"      // below a common switch, through several
	LevelPHB      Level = "PHB"      // through the root complex
	LevelNode     Level = "NODE"     // through root complexes of one NUMA node
	LevelSys      Level = "SYS"      // through the link between NUMA nodes
)

// levelsOfNVML are the values of nvmlGpuTopologyLevel_t (nvml.h).
var levelsOfNVML = map[int]Level{
	0:  LevelInternal,
	10: LevelPIX,
	20: LevelPXB,
	30: LevelPHB,
	40: LevelNode,
	50: LevelSys,
}

// farther orders levels: of two devices behind a directory the farther one
// counts, and an unknown one is the farthest.
func farther(a, b Level) Level {
	rank := map[Level]int{LevelInternal: 0, LevelPIX: 1, LevelPXB: 2, LevelPHB: 3, LevelNode: 4, LevelSys: 5, LevelUnknown: 6}
	if rank[a] >= rank[b] {
		return a
	}
	return b
}
