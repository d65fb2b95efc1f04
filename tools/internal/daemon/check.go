package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/settings"
)

// ErrSettings: what the server was told is wrong, or would not be safe.
var ErrSettings = errors.New("settings")

// Plan is what a server was told, read and found to be right.
type Plan struct {
	Settings     *settings.Settings
	Tokens       *access.Table // nil: none are configured
	Certificates *Certificates // nil: no TLS
	// Warnings are what an operator should know before the server runs so.
	Warnings []string
}

// Check reads the files that the settings name and says whether a server may
// run so. It opens no store and listens nowhere. Errors: ErrSettings, every
// one of them.
func Check(ctx context.Context, s *settings.Settings) (*Plan, error) {
	p := &Plan{Settings: s}
	failed := []error{s.Check()}
	var err error
	if s.Tokens != "" {
		if p.Tokens, err = access.Load(s.Tokens); err != nil {
			failed = append(failed, err)
		}
	}
	if s.TLSCert != "" && s.TLSKey != "" {
		if p.Certificates, err = LoadCertificates(s.TLSCert, s.TLSKey, s.TLSClientCA); err != nil {
			failed = append(failed, err)
		}
	}
	failed = append(failed, p.checkReach(ctx, "listen", s.Listen), p.checkReach(ctx, "http", s.HTTP))
	if err := errors.Join(failed...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return p, nil
}

// checkReach refuses an address that others can reach where nobody has to say
// who they are, and warns where they have to say it in the clear.
func (p *Plan) checkReach(ctx context.Context, name, address string) error {
	if address == settings.Off {
		return nil
	}
	local, err := OnLoopback(ctx, address)
	switch {
	case err != nil:
		return fmt.Errorf("%s = %s: %w", name, address, err)
	case local:
		return nil
	case p.Settings.Tokens == "":
		return fmt.Errorf("%s = %s can be reached from other hosts, and without tokens whoever reaches it may read, write and drop everything: "+
			"make a token (sealstone token NAME) and set tokens, or listen at 127.0.0.1", name, address)
	case p.Settings.TLSCert == "":
		p.Warnings = append(p.Warnings, fmt.Sprintf("WARNING: %s = %s can be reached from other hosts without TLS: tokens and blocks cross the network in the clear. Set tls-cert and tls-key.", name, address))
	}
	return nil
}
