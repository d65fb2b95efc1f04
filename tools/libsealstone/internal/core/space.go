package core

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// defaultTenant owns what is opened without one.
const defaultTenant = "default"

// Space is an open namespace.
type Space struct {
	store  *Store
	space  space
	detail []byte // JSON
}

// detail is what a caller is told of a namespace.
type detail struct {
	Number      uint32       `json:"number"`
	Tenant      string       `json:"tenant"`
	Fingerprint string       `json:"fingerprint"`
	Epoch       uint64       `json:"epoch"`
	Planes      []plane      `json:"planes"`
	Differences []difference `json:"differences"`
	Warnings    []string     `json:"warnings"`
}

type plane struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes"` // 0: any size
}

type difference struct {
	Field  string `json:"field"`
	Stored string `json:"stored"`
	Asked  string `json:"asked"`
}

func differencesOf(ds []layout.Difference) []difference {
	out := make([]difference, 0, len(ds))
	for _, d := range ds {
		out = append(out, difference{d.Field, d.A, d.B})
	}
	return out
}

func detailOf(n space) []byte {
	info, l := n.Info(), n.Layout()
	d := detail{
		Number: info.Number, Tenant: info.Tenant, Fingerprint: hex.EncodeToString(info.Fingerprint[:]), Epoch: info.Epoch,
		Planes: []plane{}, Differences: differencesOf(n.Differences()), Warnings: append([]string{}, n.Warnings()...),
	}
	for _, p := range l.Planes {
		d.Planes = append(d.Planes, plane{p.Name, p.SizeBytes})
	}
	return mustJSON(d)
}

// mustJSON encodes what always can be encoded.
func mustJSON(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return p
}

// OpenSpace opens a namespace; see sealstone_open_namespace. The detail is JSON
// also where it fails.
func (l *Lib) OpenSpace(store uint64, layoutJSON []byte, tenant string, optionsJSON []byte) (uint64, []byte, *Error) {
	h, detail, e := l.openSpace(store, layoutJSON, tenant, optionsJSON)
	if e != nil && detail == nil {
		detail = mustJSON(map[string]string{"error": e.Text})
	}
	return h, detail, e
}

func (l *Lib) openSpace(store uint64, layoutJSON []byte, tenant string, optionsJSON []byte) (uint64, []byte, *Error) {
	s, e := l.store(store)
	if e != nil {
		return 0, nil, e
	}
	lay, err := parseLayout(layoutJSON)
	if err != nil {
		return 0, nil, failf(Invalid, "%v", err)
	}
	if err := lay.Validate(); err != nil { // here, so that a server need not be asked
		return 0, nil, callError(err)
	}
	o, err := parseSpaceOptions(optionsJSON)
	if err != nil {
		return 0, nil, failf(Invalid, "%v", err)
	}
	if tenant == "" {
		tenant = defaultTenant
	}
	ctx, cancel := s.context(o.timeout)
	defer cancel()
	n, err := s.b.namespace(ctx, lay, tenant, o.engine)
	var mismatch *engine.LayoutMismatchError
	if errors.As(err, &mismatch) {
		return 0, mustJSON(map[string]any{"differences": differencesOf(mismatch.Differences)}), callError(err)
	}
	if err != nil {
		return 0, nil, callError(err)
	}
	return l.addSpace(s, n)
}

func (l *Lib) addSpace(s *Store, n space) (uint64, []byte, *Error) {
	v := &Space{store: s, space: n, detail: detailOf(n)}
	h, e := enter(s, l.spaces, v, "namespace handles")
	if e != nil {
		return 0, nil, e
	}
	return h, v.detail, nil
}

// SpaceInfo is the detail of a namespace again.
func (l *Lib) SpaceInfo(h uint64) ([]byte, *Error) {
	n, ok := l.spaces.get(h)
	if !ok {
		return nil, errBadHandle
	}
	return n.detail, nil
}

// BumpEpoch makes all blocks of a namespace invisible and gives a handle of the
// new epoch.
func (l *Lib) BumpEpoch(h uint64, timeout time.Duration) (uint64, *Error) {
	n, ok := l.spaces.get(h)
	if !ok {
		return 0, errBadHandle
	}
	if l.spaces.count() >= handlesMax {
		return 0, failf(Shed, "%d namespace handles are open, as many as there may be: close some", handlesMax)
	}
	ctx, cancel := n.store.context(timeout)
	defer cancel()
	next, err := n.space.bump(ctx)
	if err != nil {
		return 0, callError(err)
	}
	bumped, _, e := l.addSpace(n.store, next)
	return bumped, e
}

// CloseSpace gives a handle back.
func (l *Lib) CloseSpace(h uint64) *Error {
	if _, ok := l.spaces.take(h); !ok {
		return errBadHandle
	}
	return nil
}
