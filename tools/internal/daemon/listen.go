package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tools/internal/settings"
)

// doors are the listeners of a server.
type doors struct {
	resp []net.Listener // TCP or TLS, then Unix
	http net.Listener   // nil: off
}

// openDoors listens everywhere before the store is opened: a port that is taken
// shows at once, and who connects early waits instead of being refused.
func openDoors(ctx context.Context, s *settings.Settings, certificates *Certificates) (*doors, error) {
	d := &doors{}
	err := d.open(ctx, s, certificates)
	if err != nil {
		d.close()
		return nil, explainTaken(s.Dir, err)
	}
	return d, nil
}

func (d *doors) open(ctx context.Context, s *settings.Settings, certificates *Certificates) error {
	if s.Listen != settings.Off {
		l, err := listenTCP(ctx, s.Listen)
		if err != nil {
			return fmt.Errorf("listen = %s: %w", s.Listen, err)
		}
		if certificates != nil {
			l = tls.NewListener(l, certificates.RESP())
		}
		d.resp = append(d.resp, l)
	}
	if s.Unix != "" {
		l, err := listenUnix(s.Unix)
		if err != nil {
			return fmt.Errorf("unix = %s: %w", s.Unix, err)
		}
		d.resp = append(d.resp, l)
	}
	if s.HTTP != settings.Off {
		l, err := listenTCP(ctx, s.HTTP)
		if err != nil {
			return fmt.Errorf("http = %s: %w", s.HTTP, err)
		}
		if certificates != nil {
			l = tls.NewListener(l, certificates.HTTP())
		}
		d.http = l
	}
	return nil
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}

func (d *doors) close() {
	for _, l := range append(d.resp, d.http) {
		if l != nil {
			_ = l.Close()
		}
	}
}

// explainTaken adds who has the store, where a port is taken by another server
// of the same store: that is what whoever started two of them has to know.
func explainTaken(dir string, err error) error {
	fsys, openErr := vfs.OpenOS(dir)
	if openErr != nil {
		return err
	}
	defer fsys.Close()
	lock, lockErr := meta.HoldLock(fsys, meta.CurrentOwner())
	if lockErr == nil {
		_ = lock.Close()
		return err
	}
	if errors.Is(lockErr, meta.ErrLocked) {
		return fmt.Errorf("%w; %w", err, lockErr)
	}
	return err
}
