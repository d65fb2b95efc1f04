// Package meta keeps the few facts that a store cannot do without: who it is
// (STORE), what its namespaces mean and which numbers were handed out
// (NAMESPACES), and who has it open (LOCK).
//
// STORE and NAMESPACES are small, are kept in two copies and are replaced
// whole. A change is written to the first copy, made durable, then to the
// second, and only then answered: so each copy alone holds everything that was
// ever answered, and the loss of one loses nothing. Copies carry a generation;
// the highest valid one wins at Open, which then brings the other back.
//
// docs/format/store.md, namespaces.md and lock.md have the bytes.
package meta

// Names of the files, relative to the root of the store.
const (
	StoreFile          = "STORE"
	StoreCopyFile      = "STORE.2"
	NamespacesFile     = "NAMESPACES"
	NamespacesCopyFile = "NAMESPACES.2"
	LockFile           = "LOCK"

	tmpSuffix = ".tmp"
)
