package aligned

// Huge says what kind of pages memory is made of. The kernel decides, and may
// change its mind: see Memory.
type Huge string

const (
	// HugeNone: the system's small pages.
	HugeNone Huge = "none"
	// HugeTHP: transparent huge pages, asked for with MADV_HUGEPAGE. The
	// kernel gives them while it has 2 MiB in one piece, else small ones.
	HugeTHP Huge = "thp"
	// HugeTLB: pages set apart by the administrator (vm.nr_hugepages).
	HugeTLB Huge = "hugetlb"
)
