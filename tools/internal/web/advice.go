package web

import "github.com/sealstone/sealstone/engine"

// advice is what docs/operations.md says to do about an event, in one line. A
// kind that asks for nothing has "".
var advice = map[engine.EventKind]string{
	engine.EventOpened:          "",
	engine.EventClosed:          "",
	engine.EventHealth:          "Read the reasons; they say what would change it.",
	engine.EventRebuild:         "Find out who removed or damaged index or log; run sealstone verify when the server is stopped.",
	engine.EventRecovered:       "The last owner did not close the store: look for why it ended.",
	engine.EventTornLog:         "",
	engine.EventUnproven:        "",
	engine.EventHealed:          "If it happens again, the device is failing; run sealstone verify.",
	engine.EventStrangeFile:     "Remove the file when nobody needs it: it counts against the capacity.",
	engine.EventQuarantine:      "One: note it. Several: check memory and device, run sealstone verify.",
	engine.EventQuarantineStorm: "Check memory, device and driver; the store resumes when a probe passes.",
	engine.EventEvict:           "If the hit rate suffers, give more capacity.",
	engine.EventDiffers:         "",
	engine.EventEpoch:           "",
	engine.EventLayoutNear:      "If a field was not meant to differ, correct the engine's settings.",
	engine.EventIndexTrouble:    "Free space on the file system.",
	engine.EventSyncFailed:      "Look at the device, its free space and the kernel's log.",
	engine.EventSegmentLost:     "Find out who removed the file.",
	engine.EventPathDemoted:     "Look for bad memory, a bad driver, a file system that lies; run sealstone probe.",
	engine.EventProbe:           "",
	engine.EventCompression:     "",
	engine.EventHint:            "Raise hint (some 20 bytes a block), or leave it.",
	engine.EventCompact:         "",
	engine.EventScrub:           "If it found something: note it, and check the device when there is more.",
	engine.EventUnanswered:      "Unless all prompts are new, give the engine a fixed hash seed.",
	engine.EventSetAside:        "Open what was set aside with the program that wrote it, or remove it.",
	engine.EventDevice:          "Look into the reason; the blocks go through host memory.",
	engine.EventHostMemory:      "One: note it. Several: a memory module is failing; look into the kernel's log.",
	engine.EventQuota:           "Nothing, if the tenant is meant to have a cache of that size; else raise its disk-quota.",
}
