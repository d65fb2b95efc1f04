package daemon

import (
	"context"
	"fmt"
	"net"
	"time"
)

// resolveTimeout bounds looking up the name in an address.
const resolveTimeout = 5 * time.Second

// OnLoopback tells whether only this host can reach an address to listen at:
// all addresses that its host part stands for are loopback. An address without
// a host is every interface.
func OnLoopback(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if host == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, fmt.Errorf("look up the address of %s: %w", host, err)
	}
	for _, a := range all {
		if !a.IP.IsLoopback() {
			return false, nil
		}
	}
	return len(all) > 0, nil
}
