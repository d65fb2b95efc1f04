package engine

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/sealstone/sealstone/tiers/disk"
)

// MaxPlainKeyBytes is the longest plain key.
const MaxPlainKeyBytes = disk.MaxPlainKeyBytes

// KeyHash is the block hash under which the value of a plain key is stored:
// the SHA-256 of the key.
func KeyHash(plainKey []byte) []byte {
	h := sha256.Sum256(plainKey)
	return h[:]
}

// checkPlainKey refuses a plain key that is too long for a header, or that the
// block's hash does not belong to: under that hash nobody would look for it.
func checkPlainKey(b *PutBlock) error {
	fail := func(format string, args ...any) error {
		return &BlockError{Status: StatusInvalid, Hash: b.Hash, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(b.PlainKey) == 0:
		return nil
	case len(b.PlainKey) > MaxPlainKeyBytes:
		return fail("plain key of %d bytes: at most %d are allowed", len(b.PlainKey), MaxPlainKeyBytes)
	case !bytes.Equal(b.Hash, KeyHash(b.PlainKey)):
		return fail("the hash is not that of the plain key: use KeyHash, the SHA-256 of its bytes")
	}
	return nil
}
