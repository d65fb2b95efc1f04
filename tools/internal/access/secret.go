package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// New makes a secret of 130 random bits and the entry of the tokens file that
// knows it by its sum. The secret is to be shown once and kept nowhere.
func New(id Identity) (secret, entry string, err error) {
	words := strings.Split(id.Rights(), ",")
	if err := errors.Join(checkName(id.Name), checkTenant(id.Tenant), new(Identity).grant(words)); err != nil {
		return "", "", fmt.Errorf("access: %w", err)
	}
	secret = rand.Text()
	sum := sha256.Sum256([]byte(secret))
	entry = fmt.Sprintf("[[token]]\nname   = %q\ntenant = %q\nrights = %q\nsha256 = %q\n",
		id.Name, id.Tenant, words, hex.EncodeToString(sum[:]))
	return secret, strings.ReplaceAll(entry, `" "`, `", "`), nil
}

// ParseRights sets the rights of id from a list with commas, as Rights has it.
func (id *Identity) ParseRights(list string) error {
	if err := id.grant(strings.Split(list, ",")); err != nil {
		return fmt.Errorf("access: %w", err)
	}
	return nil
}
