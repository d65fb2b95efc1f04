package inventory

import "encoding/binary"

// Offsets and numbers of PCI configuration space, by the PCI Local Bus
// Specification 3.0 chapter 6 and the PCI Express Base Specification 5.0
// sections 7.5.3 and 7.7.8; linux/pci_regs.h has the same.
const (
	configStatus     = 0x06
	statusHasList    = 1 << 4
	configCapPointer = 0x34
	capExpress       = 0x10
	configExtended   = 0x100
	extendedACS      = 0x000d

	acsRequestRedirect    = 1 << 2
	acsCompletionRedirect = 1 << 3
	acsEgressControl      = 1 << 5
)

// PortType is what a PCI Express device is, by its express capability.
type PortType string

// The port types that matter here; all others are other.
const (
	PortUnknown    PortType = "unknown"
	PortRoot       PortType = "root port"
	PortUpstream   PortType = "upstream port"
	PortDownstream PortType = "downstream port"
	PortOther      PortType = "other"
)

// portOf is the port type of a device/port type field.
func portOf(field int) PortType {
	switch field {
	case 4:
		return PortRoot
	case 5:
		return PortUpstream
	case 6:
		return PortDownstream
	}
	return PortOther
}

// configPort finds the port type. Who is not root reads only the first 64
// bytes of the space, which mostly end before the capability: unknown.
func configPort(config []byte) PortType {
	if len(config) < 64 || binary.LittleEndian.Uint16(config[configStatus:])&statusHasList == 0 {
		return PortUnknown
	}
	at := int(config[configCapPointer]) &^ 3
	// 48 capabilities of 4 bytes fill the space: a longer list is a loop.
	for range 48 {
		if at < 64 || at+4 > len(config) || at >= configExtended {
			return PortUnknown
		}
		if config[at] == capExpress {
			return portOf(int(config[at+2] >> 4))
		}
		at = int(config[at+1]) &^ 3
	}
	return PortUnknown
}

// Redirect is whether a bridge sends traffic between devices below it up to
// the root complex (access control services).
type Redirect string

// A bridge without the capability does not redirect.
const (
	RedirectUnknown Redirect = "unknown"
	RedirectOn      Redirect = "on"
	RedirectOff     Redirect = "off"
)

// configRedirect finds whether access control services redirect requests or
// completions, as Linux's p2pdma asks too. The capability lies in the extended
// space, which only root may read.
func configRedirect(config []byte) Redirect {
	if len(config) <= configExtended {
		return RedirectUnknown
	}
	at := configExtended
	for range (4096 - configExtended) / 8 {
		if at < configExtended || at+8 > len(config) {
			return RedirectUnknown
		}
		header := binary.LittleEndian.Uint32(config[at:])
		if header == 0xffffffff {
			return RedirectUnknown // the device does not answer
		}
		if header&0xffff == extendedACS {
			control := binary.LittleEndian.Uint16(config[at+6:])
			if control&(acsRequestRedirect|acsCompletionRedirect|acsEgressControl) != 0 {
				return RedirectOn
			}
			return RedirectOff
		}
		if at = int(header>>20) &^ 3; at == 0 {
			return RedirectOff
		}
	}
	return RedirectUnknown
}
