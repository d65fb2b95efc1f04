package index

import "strings"

// changes are what a batch has written, for the batch itself to read: by
// group, the part of a key that lists ask for. Groups are small, most hold one
// key.
type changes struct {
	groups map[string][]change
}

type change struct {
	key   string
	value []byte
	gone  bool // deleted
}

func newChanges() *changes { return &changes{groups: map[string][]change{}} }

// groupBytes is how much of a key its group is: of a reference the address, of
// a k record the tag, of others all.
func groupBytes(kind byte) int {
	switch kind {
	case kindRef:
		return refPrefixBytes
	case kindKey:
		return keyPrefixBytes + tagBytes
	}
	return 1 << 10
}

func groupOf(key []byte) []byte { return key[:min(len(key), groupBytes(key[0]))] }

// find returns the change of a key, or nil.
func (c *changes) find(key []byte) *change {
	group := c.groups[string(groupOf(key))]
	for i := range group {
		if group[i].key == string(key) {
			return &group[i]
		}
	}
	return nil
}

// note keeps a change in place of an earlier one of the key.
func (c *changes) note(key, value []byte, gone bool) {
	if old := c.find(key); old != nil {
		old.value, old.gone = value, gone
		return
	}
	group := string(groupOf(key))
	c.groups[group] = append(c.groups[group], change{string(key), value, gone})
}

// scan calls fn for each key written that begins with prefix: a group, or
// less, which takes a look at all. Deleted keys are left out.
func (c *changes) scan(prefix []byte, fn func(key, value []byte) error) error {
	if len(prefix) >= groupBytes(prefix[0]) {
		return scanGroup(c.groups[string(groupOf(prefix))], prefix, fn)
	}
	for name, group := range c.groups {
		if strings.HasPrefix(name, string(prefix)) {
			if err := scanGroup(group, prefix, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func scanGroup(group []change, prefix []byte, fn func(key, value []byte) error) error {
	for _, c := range group {
		if c.gone || !strings.HasPrefix(c.key, string(prefix)) {
			continue
		}
		if err := fn([]byte(c.key), c.value); err != nil {
			return err
		}
	}
	return nil
}
